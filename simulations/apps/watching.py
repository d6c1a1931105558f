"""A grid that shows every exchange of an app's server, whatever strategy or loop it has."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from fedpriv.clients.keeping import asked_in, truth_in
from fedpriv.clients.noticing import Eyes, Notes
from fedpriv.evidence.observation import Observation
from fedpriv.flower import RECORD_KEY_CONFIGS
from fedpriv.registry import FOREIGN
from fedpriv.simulations.apps.protocol import facts_told
from fedpriv.simulations.apps.support import NotSupported
from fedpriv.simulations.apps.targets import Target, brought_along, target_of
from fedpriv.simulations.apps.updates import observed, trained_by, weights_in
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import RUN_ID
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.state import State
from fedpriv.wire import EXAMPLES, state_in

BYSTANDERS = 1500  # samples of clients that were never asked
FIRST_NODE = 2  # node 1 is the server
FIRST_WEIGHTS = {"get_parameters", "get_properties"}  # how older apps ask a client to begin


class Enough(BaseException):
    """Ends an app's own loop, which may catch every Exception."""


@dataclass
class Watched:
    """What was seen of an app: its evidence, its rounds, and what clients noted themselves."""

    folder: Path
    eyes: Eyes
    rounds: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[Observation] = field(default_factory=list)
    notes: list[Notes] = field(default_factory=list)
    public: dict[int, State] = field(default_factory=dict)  # the model sent, by round
    sums: dict[int, list[Tensor]] = field(default_factory=dict)  # unmasked, by round
    metrics: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)  # round, node
    miscounted: set[tuple[int, int]] = field(default_factory=set)  # batches told, samples used
    failed: list[str] = field(default_factory=list)
    target: Target | None = None  # where samples bring one along
    losses: set[str] = field(default_factory=set)  # by the app's own names
    summed: bool = False  # whether the app uses secure aggregation
    numbers: dict[bytes, int] = field(default_factory=dict)  # of samples
    bystanders: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # of clients never asked

    def learn(self, notes: Notes) -> None:
        """Keep the app's loss, and turn samples with targets of their own into one."""
        self.losses |= notes.losses
        target = target_of(notes)
        self.target = self.target or target
        if target is not None and target == self.target:
            brought_along(notes, target)

    def heard(self, server_round: int, arrays: Sequence[np.ndarray]) -> None:
        """A round's sum was unmasked."""
        self.sums[server_round] = [torch.from_numpy(np.array(each)) for each in arrays]

    def number_of(self, sample: Tensor) -> int:
        return self.numbers.setdefault(sample.numpy().tobytes(), len(self.numbers))


class WatchedGrid(SimulationGrid):
    """Flower's Grid over an app's clients in this process."""

    def __init__(
        self,
        app: ClientApp,
        watched: Watched,
        contexts: dict[int, Context],
        until: Callable[[], bool],
    ) -> None:
        backend = InlineBackend()
        backend.build(lambda: self.noted(app))  # type: ignore[arg-type,return-value]
        super().__init__(backend, contexts)
        self.watched, self.until = watched, until
        self.told: dict[int, Notes] = {}
        self.trained: dict[int, State] = {}  # what each client's model is after its training
        self.app, self.last = app, RecordDict()  # what clients were last asked to train with
        self.trainers: set[int] = set()
        self.count = 0
        self.turn = threading.RLock()  # Flower's older loop asks its clients in threads

    def noted(self, app: ClientApp) -> Callable[[Message, Context], Message]:
        """The app behind one more mod, the outermost: it sees what leaves the client."""

        def answered(message: Message, context: Context) -> Message:
            with self.watched.eyes.noting() as notes:
                reply = app(message, context)
            if notes.steps:
                node = int(context.node_config["partition-id"])
                self.watched.learn(notes)
                self.told[node], self.trained[node] = notes, trained_by(notes)
            return reply

        return answered

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        messages = list(messages)
        with self.turn:
            if self.watched.rounds and not self.until():
                raise Enough
            started = time.perf_counter()
            replies = super().send_and_receive(messages, timeout=timeout)
            broken = [reply.error.reason or "" for reply in replies if reply.has_error()]
            self.watched.failed += broken
            if broken and len(broken) == len(replies):
                raise Enough
            kinds = {one.metadata.message_type for one in messages}
            if not self.watched.rounds or any(k.startswith(MessageType.TRAIN) for k in kinds):
                self.seen(messages, replies, time.perf_counter() - started)
        return replies

    def seen(self, messages: Sequence[Message], replies: Sequence[Message], took: float) -> None:
        """Keep what a curious server keeps of this exchange."""
        sent = {one.metadata.dst_node_id: one for one in messages}
        masked = any(RECORD_KEY_CONFIGS in one.content.config_records for one in messages)
        if not masked and not self.told:
            check_weights(messages, replies)
            return
        if masked and not self.told:
            self.watched.summed = True
            return
        self.last = messages[0].content
        self.trainers |= set(sent)
        self.count = round_asked(messages[0]) or self.count + 1
        notes = list(self.told.values())
        self.watched.notes += notes
        self.watched.summed |= masked
        first = next(iter(one.content.array_records.values() for one in messages), ())
        if state := next(iter(first), None):
            self.watched.public[self.count] = state_in(state)
        for reply in replies:
            node = reply.metadata.src_node_id - FIRST_NODE
            if not reply.has_error() and node in self.told:
                self.keep(sent[reply.metadata.src_node_id], reply, node, masked)
        size = sum(
            len(array.data)
            for reply in replies
            if reply.has_content()
            for record in reply.content.array_records.values()
            for array in record.values()
        )
        self.note_round(len(messages), len(replies), took, size)
        self.told.clear()

    def ask_bystanders(self) -> None:
        """Samples of clients that no round asked, changed at random as the app changes them.

        The training is over, and what they answer is thrown away: nobody trained on their samples.
        """
        nodes = sorted(set(self.contexts) - self.trainers) if self.trainers else []
        kept = self.watched.bystanders
        for node in nodes:
            if sum(len(x) for x, _ in kept) >= BYSTANDERS or not self.until():
                return
            message = Message(deepcopy(self.last), node, MessageType.TRAIN)
            with self.watched.eyes.noting() as notes:
                try:
                    self.app(message, self.contexts[node])
                except FOREIGN:
                    continue
            if [len(y) for y in notes.y] == notes.sizes:
                kept += zip(notes.x, notes.y, strict=True)

    def note_round(self, asked: int, clients: int, took: float, size: int) -> None:
        """A line for the round; clients that are asked one by one are added up."""
        rounds = self.watched.rounds
        if not rounds or rounds[-1]["round"] != self.count:
            zero = {"clients": 0, "asked": 0, "seconds": 0.0, "bytes-up": 0, "failed": []}
            rounds.append({"round": self.count, **zero})
        more = {"clients": clients, "asked": asked, "seconds": round(took, 3), "bytes-up": size}
        for key, value in more.items():
            rounds[-1][key] += value

    def keep(self, sent: Message, reply: Message, node: int, masked: bool) -> None:
        """One client's update as the server saw it, and apart from it what it trained on."""
        notes = self.told[node]
        metrics = {k: v for r in reply.content.metric_records.values() for k, v in r.items()}
        self.watched.metrics.append((self.count, node, metrics))
        truth_in(notes, self.count, node, self.watched.number_of).save(self.watched.folder)
        if masked:
            return
        pair = weights_in(sent.content, reply.content, self.trained[node])
        if pair is None:
            return
        told = metrics.get(EXAMPLES, metrics.get("num_examples"))  # the second in older apps
        examples = int(told) if isinstance(told, int | float) and told >= 1 else None
        if examples is not None and examples == notes.steps < sum(notes.sizes):
            self.watched.miscounted.add((examples, sum(notes.sizes)))
        facts = facts_told(notes, list(self.told.values()), examples, self.watched.eyes)
        self.watched.evidence.append(observed(*pair, facts, self.count, node))


def round_asked(message: Message) -> int | None:
    """The round that a message names; Flower's older loop names it by the group."""
    group = message.metadata.group_id
    return asked_in(message) or (int(group) if group.isdigit() and int(group) > 0 else None)


def check_weights(messages: Sequence[Message], replies: Sequence[Message]) -> None:
    """NotSupported where clients answer with arrays although no weights were sent to them."""
    asked = {one.metadata.message_type for one in messages}
    if asked & FIRST_WEIGHTS or any(
        one.content.array_records for one in messages if one.has_content()
    ):
        return
    if any(one.has_content() and one.content.array_records for one in replies):
        raise Stopped(
            NotSupported(
                f"the app's clients answer '{', '.join(sorted(asked))}' with arrays of their own, "
                "such as embeddings, and no weights are exchanged. Nothing was trained. Codes can "
                "be audited as a scenario with a vertical strategy."
            )
        )


class Stopped(Enough):
    """Ends an app's loop because it cannot be judged."""

    def __init__(self, why: NotSupported) -> None:
        super().__init__(str(why))
        self.why = why


def contexts_for(clients: int, run_config: dict[str, Any]) -> dict[int, Context]:
    """A context for every client, as Flower's simulation gives them."""
    return {
        FIRST_NODE + number: Context(
            run_id=RUN_ID,
            node_id=FIRST_NODE + number,
            node_config={"partition-id": number, "num-partitions": clients},
            state=RecordDict(),
            run_config=dict(run_config),
        )
        for number in range(clients)
    }
