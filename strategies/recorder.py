"""record_to: evidence of updates and of codes in a folder, within a disk budget.

It keeps every exchange or a sample of them.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import MessageType

from fedpriv.codes.release import Shared
from fedpriv.evidence.folder import Evidence
from fedpriv.evidence.observation import FACTS, Observation
from fedpriv.evidence.release import Release
from fedpriv.state import State
from fedpriv.strategies.curious import Exchange
from fedpriv.wire import ADMITTED, CODES, COLUMNS, EXAMPLES, state_in

log = logging.getLogger(__name__)

GIB = 2**30
LR_KEYS = ("lr", "learning-rate", "learning_rate")
Facts = Callable[[int, int], Mapping[str, Any]]  # round and number of examples -> facts
Rounds = Callable[[int], bool]


def every(server_round: int) -> bool:
    return True


class Recorder:
    """Writes wanted exchanges as evidence: an Observation of an update, a Release of codes.

    Other exchanges (who holds how much, an encoder alone, a pool) hold nothing of a client's
    samples.

    `rounds` says which ones, `sample` how many nodes of a round at most, `max_bytes` when to stop,
    `name` what an observation calls a node. `facts` are what the server knows of the protocol; what
    they leave out is read off the messages where it can be.
    """

    def __init__(
        self,
        folder: Path | str,
        facts: Facts,
        *,
        rounds: Rounds = every,
        sample: int | None = None,
        max_bytes: float = 4 * GIB,
        name: Callable[[int], int | str] = int,
    ) -> None:
        self.folder, self.facts, self.rounds, self.name = Path(folder), facts, rounds, name
        self.sample, self.max_bytes = sample, max_bytes
        self._sizes: dict[str, int] | None = None  # bytes on disk by file name, once looked at
        self._taken: dict[int, int] = {}  # round -> observations of it
        self._warned: set[str] = set()

    def __call__(self, exchange: Exchange) -> None:
        taken = self._taken.get(exchange.round, 0)
        if not self.rounds(exchange.round) or (self.sample is not None and taken >= self.sample):
            return
        if self.full():
            return
        seen = self.evidence(exchange)
        if seen is None:
            return
        self.keep(seen)
        self._taken[exchange.round] = taken + 1

    def full(self) -> bool:
        """Whether the folder has reached its budget; what an earlier run left there counts."""
        if self.bytes < self.max_bytes:
            return False
        self.warn(f"{self.folder} has reached {self.max_bytes:.0f} bytes; no more is kept")
        return True

    @property
    def bytes(self) -> int:
        """What the folder's files take on disk, as `du` counts it."""
        if self._sizes is None:
            files = self.folder.iterdir() if self.folder.is_dir() else ()
            self._sizes = {path.name: on_disk(path) for path in files}
        return sum(self._sizes.values())

    def keep(self, seen: Evidence) -> None:
        """Write evidence, unless the budget is spent."""
        if self.full():
            return
        path = seen.save(self.folder)
        assert self._sizes is not None
        for part in (path, path.with_suffix(".json")):
            self._sizes[part.name] = on_disk(part)

    def evidence(self, exchange: Exchange) -> Evidence | None:
        """What an exchange shows of a client's samples; None if that is nothing."""
        kind = exchange.sent.metadata.message_type
        if kind == MessageType.TRAIN:
            return self.observation(exchange)
        if kind not in (CODES, COLUMNS):
            return None
        return Release(
            shared=Shared.of(_state(exchange.reply.content.array_records)),
            sent=_state(exchange.sent.content.array_records),
            round=exchange.round,
            node=self.name(exchange.node),
        )

    def observation(self, exchange: Exchange) -> Observation:
        """The exchange with all that the server knows about it."""
        sent = _state(exchange.sent.content.array_records)
        received = _state(exchange.reply.content.array_records)
        examples = _number(exchange.reply.content.metric_records, (ADMITTED, EXAMPLES))
        given = dict(self.facts(exchange.round, int(examples or 1)))
        known: dict[str, Any] = {"classes": classes_in(sent), **given}
        if examples is not None and examples >= 1:
            known.setdefault("num_examples", int(examples))
        lr = given.get("lr") or _number(exchange.sent.content.config_records, LR_KEYS)
        if lr:
            known["lr"] = float(lr)
        else:
            self.warn(
                "no message says the learning rate, so that it is unknown. Give it to "
                "record_to(lr=…), or later to `fedpriv attack --set lr=…`"
            )
        about = {"round": exchange.round, "node": self.name(exchange.node)}
        unknown = tuple(name for name in FACTS if name not in {*known, *about})
        stand_ins = {"lr": 1.0, "input_shape": ()}
        facts = {**stand_ins, **known, **about, "unknown": unknown}
        return Observation(sent=sent, received=received, **facts)

    def warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text)


def record_to(
    folder: Path | str,
    *,
    rounds: Rounds = every,
    sample: int | None = None,
    max_bytes: float = 4 * GIB,
    **facts: Any,
) -> Recorder:
    """An observer for Curious that writes what it sees into `folder`.

    Args:
        folder: Where the evidence goes.
        rounds: Which rounds to record: a function of the round.
        sample: At most so many nodes of a round.
        max_bytes: Record no more when the folder has reached this size.
        facts: Facts of an Observation, what your clients are told to do: lr, optimiser, momentum,
            batch_size, local_steps, input_shape, mean, std, mode, … They can also be given when
            attacking.

    Example:
        >>> from fedpriv import record_to
        >>> recorder = record_to("observations/", rounds=lambda number: number <= 3, lr=0.1)
        >>> recorder.rounds(5)
        False
    """
    return Recorder(
        folder,
        lambda server_round, examples: facts,
        rounds=rounds,
        sample=sample,
        max_bytes=max_bytes,
    )


def on_disk(path: Path) -> int:
    """The bytes that a file takes on disk, whole blocks."""
    return path.stat().st_blocks * 512


def classes_in(state: State) -> int:
    """How many outputs the model has: the rows of its last matrix."""
    matrices = [value for value in state.values() if value.dim() == 2]
    return len(matrices[-1]) if matrices else 1


def _state(records: Mapping[str, Any]) -> State:
    return state_in(next(iter(records.values())))


def _number(records: Mapping[str, Mapping[str, Any]], keys: tuple[str, ...]) -> float | None:
    """The first number under one of the keys in any of the records."""
    for record in records.values():
        for key in keys:
            if isinstance(record.get(key), int | float):
                found: float | None = record[key]
                return found
    return None
