"""Releases: everything that leaves a mechanism, drawn many times, as rows of numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from zlib import crc32

import numpy as np

from fedpriv.registry import FOREIGN
from fedpriv.simulations.dp.worlds import World

Release = Mapping[str, Any]  # arrays and figures by name
Session = Callable[[World, int], Release]  # a world and the number of the round in
DIFFERENCE = "difference of rounds: "
BAD = "entries that are missing or not finite"
FORM, ODD_BITS = "form of the message", "signs of zeros and bits of NaN"
BESIDE = (FORM, ODD_BITS)  # what a release shows beside its numbers, as numbers
FAILURES = FOREIGN  # somebody else's mechanism may raise anything


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

    @property
    def layout(self) -> dict[str, int]:
        """How many entries each part of a release has."""
        own = {k: part.stop - part.start for k, part in self.fields.items() if k != BAD}
        return {k: size for k, size in own.items() if not k.startswith(DIFFERENCE)}


def number(value: Any) -> np.ndarray:
    """Any part of a release as numbers; text by its checksum."""
    if isinstance(value, str | bytes):
        value = crc32(value.encode() if isinstance(value, str) else value)
    return np.asarray(value, dtype=np.float64).ravel()


def is_number(field: str) -> bool:
    """Whether a field holds numbers of the release itself, of one round."""
    return not field.startswith(DIFFERENCE) and field.rpartition(": ")[2] not in BESIDE


def beside(release: Release) -> dict[str, np.ndarray]:
    """What numbers alone do not show: order of names, types and shapes, −0 and the bits of NaN."""
    arrays = {name: np.asarray(value) for name, value in release.items()}
    form = repr([(k, v.dtype.str, v.shape, v.flags.f_contiguous) for k, v in arrays.items()])
    odd = 0
    for value in arrays.values():
        if value.dtype.kind == "f":
            strange = np.isnan(value) | ((value == 0) & np.signbit(value))
            odd = crc32(np.flatnonzero(strange).tobytes() + value[strange].tobytes(), odd)
    return {FORM: number(form), ODD_BITS: np.asarray([odd], np.float64)}


def drawn(
    mechanism: Mechanism,
    worlds: Sequence[World],
    count: int,
    public: frozenset[str] = frozenset(),
    layout: Mapping[str, int] | None = None,
    rounds: Sequence[int] = (1, 2),
) -> Rows:
    """`count` sessions of a mechanism; of a session with two rounds also their difference.

    `public` names what the owner has declared public. `layout` says which parts are wanted, in this
    order; a part that a release lacks is NaN. Without it, all parts that came are taken. A session
    that fails is a release without parts: whoever looks on sees the failure. Where all sessions
    fail and no layout is given, the first error is raised.
    """
    many = getattr(mechanism, "many", None)
    if many is not None and not public:
        kept = {
            prefix_of(turn, worlds) + name: values.reshape(count, -1)
            for turn, world in enumerate(worlds)
            for name, values in many(world, count).items()
        }
    else:
        kept = one_by_one(mechanism, worlds, count, public, layout, rounds)
    if not kept:
        return Rows(np.zeros((count, 1)), {BAD: slice(0, 1)})  # nothing was released
    if len(worlds) > 1:
        for name in [k.removeprefix("round 1: ") for k in kept if k.startswith("round 1: ")]:
            first, second = kept[f"round 1: {name}"], kept.get(f"round 2: {name}")
            if second is not None and second.shape == first.shape:
                kept[DIFFERENCE + name] = first - second
    return rows_of(kept)


def prefix_of(turn: int, worlds: Sequence[World]) -> str:
    return f"round {turn + 1}: " if len(worlds) > 1 else ""


def one_by_one(
    mechanism: Mechanism,
    worlds: Sequence[World],
    count: int,
    public: frozenset[str],
    layout: Mapping[str, int] | None,
    rounds: Sequence[int],
) -> dict[str, np.ndarray]:
    """The parts (count, size) of so many sessions, by name."""
    releases: list[dict[str, np.ndarray]] = []
    first: BaseException | None = None
    failed = 0
    for _ in range(count):
        found: dict[str, np.ndarray] = {}
        try:
            session = mechanism.session()
            for turn, world in enumerate(worlds):
                prefix = prefix_of(turn, worlds)
                release = session(world, rounds[turn])
                seen = {name: value for name, value in release.items() if name not in public}
                for name, value in (seen | beside(seen)).items():
                    found[prefix + name] = number(value)
        except FAILURES as error:
            first, failed = first or error, failed + 1
        releases.append(found)
    if first is not None and failed == count and layout is None:
        raise first
    sizes = layout if layout is not None else layout_of(releases)
    missing = {name: np.full(size, np.nan) for name, size in sizes.items()}
    kept = {}
    for name, size in sizes.items():
        parts = [one.get(name, missing[name]) for one in releases]
        kept[name] = np.stack([p if p.size == size else missing[name] for p in parts])
    return kept


def layout_of(releases: Sequence[Mapping[str, np.ndarray]]) -> dict[str, int]:
    """The parts of all releases, each with the size that it had first."""
    found: dict[str, int] = {}
    for release in releases:
        for name, value in release.items():
            found.setdefault(name, value.size)
    return found


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
