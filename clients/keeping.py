"""keep_truth: a mod that keeps, on the client's own disk, the samples that entered its training.

For people who record their own app: scores need them, and no message can ask for them.
"""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from flwr.app import Context, Message, MessageType
from torch import Tensor

from fedpriv.clients.noticing import Eyes, Notes
from fedpriv.evidence.truth import Truth
from fedpriv.wire import ROUND

Answer = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, Answer], Message]


def keep_truth(folder: Path | str) -> Mod:
    """A Flower mod that writes `<round>-<node>.npz` into `folder` for every training message.

    The files hold private samples. Use it for an audit of your own app, and delete them.

    Args:
        folder: A folder of the client. `fedpriv attack --truth` reads it.

    Example:
        >>> from flwr.clientapp import ClientApp
        >>> from fedpriv import keep_truth
        >>> app = ClientApp(mods=[keep_truth("truth/")])
    """
    rounds: dict[int, int] = {}

    def mod(message: Message, context: Context, call_next: Answer) -> Message:
        if not message.metadata.message_type.startswith(MessageType.TRAIN):
            return call_next(message, context)
        with Eyes() as eyes, eyes.noting() as notes:
            reply = call_next(message, context)
        node = context.node_id
        rounds[node] = asked_in(message) or rounds.get(node, 0) + 1
        if notes.x:
            truth_in(notes, rounds[node], node).save(folder)
        return reply

    return mod


def asked_in(message: Message) -> int | None:
    """The server's round, where a message names one."""
    for record in message.content.config_records.values():
        number = record.get(ROUND, record.get("server_round", record.get("current_round")))
        if isinstance(number, int) and number > 0:
            return number
    return None


def truth_in(
    notes: Notes, server_round: int, node: int, numbers: Callable[[Tensor], int] | None = None
) -> Truth:
    """Each sample once, in the order of training; `numbers` says what to call one."""
    x = torch.cat(notes.x)
    y = labels_in(notes)
    first: dict[bytes, int] = {}
    for place, sample in enumerate(x):
        first.setdefault(sample.numpy().tobytes(), place)
    places = torch.tensor(list(first.values()), dtype=torch.long)
    named = torch.arange(len(places)) if numbers is None else None
    if named is None and numbers is not None:
        named = torch.tensor([numbers(x[place]) for place in places])
    assert named is not None
    return Truth(
        x=x[places],
        trained=x[places],
        y=y[places],
        indices=named,
        clean=math.nan,
        added=math.nan,
        round=server_round,
        node=node,
    )


def labels_in(notes: Notes) -> Tensor:
    """(N,) whole numbers; −1 where a sample has no such label."""
    sizes = notes.sizes
    nothing = torch.full((sum(sizes),), -1, dtype=torch.long)
    if [len(y) for y in notes.y] != sizes:
        return nothing
    found = torch.cat([y.reshape(len(y), -1) for y in notes.y])
    if found.shape[1] != 1 or not torch.equal(found, found.round()):
        return nothing
    return found[:, 0].long()
