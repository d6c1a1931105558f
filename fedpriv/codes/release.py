"""What a federation has published when codes were shared: encoders, codes, classifiers; one flat State."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from fedpriv.errors import BadInput, BadObservation
from fedpriv.state import State

PREFIX = "published/"
Z, Y, IDS, TEST, TEST_IDS, ENCODER = "z", "y", "ids", "test", "test-ids", "encoder"


@dataclass(frozen=True)
class Shared:
    """What one party shared: codes (N, *code), labels (N, tasks) and row ids where it gives them."""

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
        weights = self.encoder or {}
        return found | {f"{ENCODER}/{name}": value for name, value in weights.items()}

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """Read back what `state` gave; BadObservation says what is wrong with it."""
        missing = {Z, TEST, TEST_IDS} - state.keys()
        if missing:
            raise BadObservation(f"shared codes lack {', '.join(sorted(missing))}")
        encoder = {
            name.removeprefix(f"{ENCODER}/"): value
            for name, value in state.items()
            if name.startswith(f"{ENCODER}/")
        }
        found = cls(
            state[Z], state[TEST], state[TEST_IDS], state.get(Y), state.get(IDS), encoder or None
        )
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
    """All that is public after codes were shared, by party number."""

    encoder: State = field(default_factory=dict)
    parties: Mapping[int, Shared] = field(default_factory=dict)
    classifiers: Mapping[str, State] = field(default_factory=dict)

    def state(self) -> State:
        """One flat state, fit for a checkpoint."""
        found = {f"{PREFIX}encoder/{name}": value for name, value in self.encoder.items()}
        for party, shared in self.parties.items():
            found |= {f"{PREFIX}party/{party}/{k}": v for k, v in shared.state().items()}
        for task, weights in self.classifiers.items():
            found |= {f"{PREFIX}task/{task}/{k}": v for k, v in weights.items()}
        return found

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Self:
        """Read back what `state` gave; empty when nothing was published."""
        encoder: State = {}
        grouped: dict[tuple[str, str], State] = {}
        for name, value in state.items():
            if not name.startswith(PREFIX):
                continue
            kind, _, rest = name.removeprefix(PREFIX).partition("/")
            if kind == "encoder":
                encoder[rest] = value
                continue
            who, _, key = rest.partition("/")
            grouped.setdefault((kind, who), {})[key] = value
        return cls(
            encoder,
            {int(who): Shared.of(part) for (kind, who), part in grouped.items() if kind == "party"},
            {who: part for (kind, who), part in grouped.items() if kind == "task"},
        )


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
