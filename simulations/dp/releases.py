"""Releases: everything that leaves a mechanism, drawn many times, as rows of numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fedpriv.simulations.dp.worlds import World

Release = Mapping[str, Any]  # arrays and figures by name
Session = Callable[[World, int], Release]  # a world and the number of the round in
BAD = "entries that are not finite"


class Mechanism(Protocol):
    """A black box: a session keeps whatever the mechanism keeps from round to round."""

    @property
    def name(self) -> str: ...

    @property
    def takes(self) -> Literal["update", "updates", "samples"]: ...

    @property
    def fixed(self) -> bool:
        """Whether the number of contributors is public."""
        ...

    def session(self) -> Session: ...


@dataclass(frozen=True)
class Rows:
    """`values` (n, D): one release a row; `fields` says which columns belong to which name."""

    values: np.ndarray
    fields: dict[str, slice]

    def column(self, index: int) -> str:
        """The name of what a column is part of."""
        return next(k for k, part in self.fields.items() if part.start <= index < part.stop)


def flattened(release: Release, prefix: str) -> dict[str, np.ndarray]:
    return {
        prefix + name: np.asarray(value, dtype=np.float64).ravel()
        for name, value in release.items()
        if not isinstance(value, str | bytes)
    }


def drawn(
    mechanism: Mechanism, worlds: Sequence[World], count: int, public: frozenset[str] = frozenset()
) -> Rows:
    """`count` sessions of a mechanism; of a session with two rounds also their difference.

    `public` names what the owner has declared public.
    """
    many = getattr(mechanism, "many", None)
    if many is not None and len(worlds) == 1:
        return rows_of({k: v.reshape(count, -1) for k, v in many(worlds[0], count).items()})
    columns: dict[str, list[np.ndarray]] = {}
    for _ in range(count):
        session = mechanism.session()
        for number, world in enumerate(worlds, 1):
            prefix = f"round {number}: " if len(worlds) > 1 else ""
            for name, value in flattened(session(world, number), prefix).items():
                if name.removeprefix(prefix) not in public:
                    columns.setdefault(name, []).append(value)
    kept = {k: np.stack(v) for k, v in columns.items() if len(v) == count}
    if len(worlds) > 1:
        for name in [k for k in kept if k.startswith("round 1: ")]:
            first, second = kept[name], kept.get("round 2: " + name.removeprefix("round 1: "))
            if second is not None and second.shape == first.shape:
                kept[f"difference of rounds: {name.removeprefix('round 1: ')}"] = first - second
    return rows_of(kept)


def rows_of(columns: Mapping[str, np.ndarray]) -> Rows:
    """Columns side by side; NaN and infinity become 0, and a last column counts them."""
    fields, start = {}, 0
    for name, values in columns.items():
        fields[name] = slice(start, start + values.shape[1])
        start += values.shape[1]
    values = np.concatenate([*columns.values()], axis=1).astype(np.float64)
    bad = ~np.isfinite(values)
    values[bad] = 0
    fields[BAD] = slice(start, start + 1)
    return Rows(np.concatenate([values, bad.sum(1, keepdims=True)], axis=1), fields)
