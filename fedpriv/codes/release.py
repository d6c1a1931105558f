"""What parties share instead of updates: codes with labels and row ids, and the public models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from fedpriv.errors import BadInput, BadObservation
from fedpriv.state import State

Z, Y, IDS, TEST, TEST_IDS, ENCODER, TASK = "z", "y", "ids", "test", "test-ids", "encoder", "task"


@dataclass(frozen=True)
class Shared:
    """What one party shared: codes (N, *code), labels (N, tasks), and row ids if it gives them."""

    z: Tensor
    test: Tensor
    test_ids: Tensor
    y: Tensor | None = None
    ids: Tensor | None = None
    encoder: State | None = None

    def state(self) -> State:
        """As it travels."""
        found = {Z: self.z, TEST: self.test, TEST_IDS: self.test_ids}
        found |= {} if self.y is None else {Y: self.y}
        found |= {} if self.ids is None else {IDS: self.ids}
        return found | under(ENCODER, self.encoder or {})

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """Read back what `state` gave; BadObservation says what is wrong with it."""
        missing = {Z, TEST, TEST_IDS} - state.keys()
        if missing:
            raise BadObservation(f"shared codes lack {', '.join(sorted(missing))}")
        encoder = below(ENCODER, state) or None
        found = cls(state[Z], state[TEST], state[TEST_IDS], state.get(Y), state.get(IDS), encoder)
        found.check()
        return found

    def check(self) -> None:
        """BadObservation for codes that do not fit together or are not finite."""
        for what, labels in (("labels", self.y), ("ids", self.ids)):
            if labels is not None and len(labels) != len(self.z):
                raise BadObservation(f"{len(self.z)} codes came with {len(labels)} {what}")
        if len(self.test) != len(self.test_ids) or self.test.shape[1:] != self.z.shape[1:]:
            raise BadObservation("the codes of test samples do not fit their ids or the others")
        if not len(self.z):
            raise BadObservation("there are no codes")
        if not (torch.isfinite(self.z).all() and torch.isfinite(self.test).all()):
            raise BadObservation("codes hold NaN or infinity")


@dataclass(frozen=True)
class Published:
    """The public models where codes are shared: an encoder, and a classifier for each task."""

    encoder: State = field(default_factory=dict)
    classifiers: Mapping[str, State] = field(default_factory=dict)

    def state(self) -> State:
        """One flat state, fit for a checkpoint."""
        found = under(ENCODER, self.encoder)
        for task, weights in self.classifiers.items():
            found |= under(f"{TASK}/{task}", weights)
        return found

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """Read back what `state` gave; empty when nothing was published."""
        learned = below(TASK, state)
        tasks = dict.fromkeys(name.partition("/")[0] for name in learned)
        return cls(below(ENCODER, state), {task: below(task, learned) for task in tasks})


def under(prefix: str, state: Mapping[str, Tensor]) -> State:
    """The same entries as `prefix/name`."""
    return {f"{prefix}/{name}": value for name, value in state.items()}


def below(prefix: str, state: Mapping[str, Tensor]) -> State:
    """The entries `prefix/name` by name."""
    start = f"{prefix}/"
    return {k.removeprefix(start): value for k, value in state.items() if k.startswith(start)}


def pooled(parties: Sequence[Shared]) -> tuple[Tensor, Tensor]:
    """The codes and labels of all parties, one below the other (the pool of ARS eq. 6)."""
    labelled = [shared for shared in parties if shared.y is not None]
    return (
        torch.cat([shared.z for shared in labelled]),
        torch.cat([shared.y for shared in labelled if shared.y is not None]),
    )


def places(ids: Sequence[Tensor]) -> list[Tensor]:
    """For each party, where the ids that all of them have are in its list; one order for all.

    Parties may list their ids in any order and lack some; an id listed twice is an error.
    """
    sets = []
    for party, own in enumerate(ids):
        if len(own.unique()) < len(own):
            raise BadInput(f"Party {party} lists an id twice; ids must be unique to align rows.")
        sets.append(set(own.tolist()))
    common = sorted(set.intersection(*sets)) if sets else []
    if not common:
        raise BadInput(
            "The parties have no row in common; check that their ids name the same rows."
        )
    where = [{value: place for place, value in enumerate(own.tolist())} for own in ids]
    return [torch.tensor([place[value] for value in common]) for place in where]


def side_by_side(codes: Sequence[Tensor], ids: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """w = concat(ẑ_1, …, ẑ_K) of the rows that all have (ARS 4.4.2), and where those were."""
    found = places(ids)
    rows = [z[place].flatten(1) for z, place in zip(codes, found, strict=True)]
    return torch.cat(rows, dim=1), found
