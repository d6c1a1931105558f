"""Neighbouring inputs of a mechanism, made so that a canary is as easy to see as it can be.

A game is two worlds which differ in one unit: a sample or a client. "quiet" is the world without
the canary, "loud" the world with it. A mechanism that holds its ε must not tell them apart better
than ε allows, in any game.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Update = dict[str, np.ndarray]
Neighbours = Literal["add-remove", "replace"]
Unit = Literal["sample", "client"]

FAR = 1000.0  # times the clip norm: an update that must be clipped
OTHERS = 7  # contributors beside the canary; one more makes two full batches of BATCH
BATCH = 4
LATE = 100  # a round by which noise that fades has faded
FEW = 2  # other clients where their number is public: each costs time
COUNT = 64  # samples of a client
BUFFER, INTEGER = "running_mean", "num_batches_tracked"


@dataclass(frozen=True)
class World:
    """What goes into a mechanism: the model, what was learned from it, by whom, from how much."""

    start: Update
    updates: tuple[Update, ...]  # one, or one per contributor
    counts: tuple[int, ...]  # samples behind each update


@dataclass(frozen=True)
class Game:
    """Two neighbouring worlds for each round of a session, in words, and the canary's direction.

    `rounds` are the numbers of the rounds, as a client or a strategy is told them.
    """

    name: str
    quiet: tuple[World, ...]
    loud: tuple[World, ...]
    canary: Update
    rounds: tuple[int, ...] = (1, 2)


def nothing(buffers: bool = False) -> Update:
    """An update of zeros; with buffers it also has a float buffer and a counter."""
    update: Update = {
        "weight": np.zeros((4, 8), np.float32),
        "bias": np.zeros(4, np.float32),
    }
    if buffers:
        update |= {BUFFER: np.zeros(2, np.float32), INTEGER: np.zeros((), np.int64)}
    return update


def canary(buffers: bool = False) -> Update:
    """A direction of norm 1 over all weights, of signs that alternate."""
    shape = nothing(buffers)
    size = sum(v.size for k, v in shape.items() if k in ("weight", "bias"))
    signs = np.where(np.arange(size) % 2, -1.0, 1.0) / np.sqrt(size)
    weight = shape["weight"].size
    found = {k: np.zeros_like(v) for k, v in shape.items()}
    found["weight"] = signs[:weight].reshape(shape["weight"].shape).astype(np.float32)
    found["bias"] = signs[weight:].astype(np.float32)
    return found


def one_entry(row: int = 2, column: int = 3) -> Update:
    """A direction of norm 1 that is a single weight, far from both ends.

    A mechanism that sends only the largest entries takes the first or the last ones of an update
    of zeros. An entry in the middle is among neither, so that it changes which entries are sent.
    """
    found = nothing()
    found["weight"][row, column] = 1.0
    return found


def ramp(upwards: bool = True) -> Update:
    """A direction of norm 1 whose entries all differ in size; the one of `one_entry` is least.

    What a mechanism sends of it follows from the sizes and from no tie.
    """
    found = nothing()
    size = sum(v.size for v in found.values())
    first = int(np.flatnonzero(one_entry()["weight"])[0])
    steps = np.roll(np.arange(size), first)
    values = (steps if upwards else steps[::-1]) / np.linalg.norm(steps)
    weight = found["weight"].size
    found["weight"] = values[:weight].reshape(found["weight"].shape).astype(np.float32)
    found["bias"] = values[weight:].astype(np.float32)
    return found


def minus(one: Update, other: Update) -> Update:
    return {k: one[k] - other[k] for k in one}


def times(update: Update, factor: float) -> Update:
    return {k: (v * factor).astype(v.dtype) for k, v in update.items()}


def one_update(clip: float, unit: Unit, neighbours: Neighbours, zero: float) -> Iterator[Game]:
    """Games for a mechanism that takes one client's update.

    `zero` is the size of the quiet update relative to the clip norm: 0, or a little more for a
    mechanism that fails on zeros.
    """
    direction = canary()
    away = times(direction, -clip if neighbours == "replace" else zero * clip)
    near, far = times(direction, clip), times(direction, FAR * clip)
    world = World(nothing(), (away,), (COUNT,))
    yield _game("a canary at the clip norm", world, replace(world, updates=(near,)), direction)
    opposite = times(away, FAR) if neighbours == "replace" else away
    yield _game(
        f"a canary of {FAR:,.0f} times the clip norm",
        replace(world, updates=(opposite,)),
        replace(world, updates=(far,)),
        direction,
    )
    single = one_entry()
    yield _game(
        "a canary in one entry",
        replace(world, updates=(times(single, -clip if neighbours == "replace" else zero * clip),)),
        replace(world, updates=(times(single, clip),)),
        single,
    )
    if neighbours == "replace":
        other, up, down = one_entry(1, 5), ramp(), ramp(upwards=False)
        for name, own, instead in (
            ("a canary in one entry, or in another", single, other),
            ("entries of other sizes", up, down),
        ):
            yield _game(
                name,
                replace(world, updates=(times(instead, clip),)),
                replace(world, updates=(times(own, clip),)),
                minus(own, instead),
            )
    behind = replace(world, start=times(direction, -clip))
    yield _game(
        "a model that lies opposite to the canary",
        behind,
        replace(behind, updates=(times(direction, 2 * clip),)),
        direction,
    )
    rest = World(nothing(), (times(direction, zero * clip),), (COUNT,))
    yield Game(
        "two rounds, the canary in the first",
        (world, rest),
        (replace(world, updates=(near,)), rest),
        direction,
    )
    yield Game(
        "a late round, the canary in it",
        (rest, world),
        (rest, replace(world, updates=(near,))),
        direction,
        (1, LATE),
    )
    more = COUNT + 1 if unit == "sample" else 10 * COUNT
    if unit == "client" or neighbours == "add-remove":
        yield _game(
            f"the same update from {more} samples instead of {COUNT}",
            world,
            replace(world, counts=(more,)),
            direction,
        )
    yield buffers(clip, zero, integers=False)
    yield buffers(clip, zero, integers=True)


def buffers(clip: float, zero: float, *, integers: bool) -> Game:
    """A canary that changes a running mean, or a counter, and no weight."""
    still, moved = nothing(buffers=True), nothing(buffers=True)
    still["weight"][0, 0] = zero * clip
    if integers:
        moved[INTEGER] = np.asarray(3, np.int64)
    else:
        moved[BUFFER] = np.full(2, clip / np.sqrt(2), np.float32)
        del still[INTEGER], moved[INTEGER]
    start = times(still, 0.0)
    quiet = World(start, (still,), (COUNT,))
    what = "a counter" if integers else "a buffer"
    return _game(f"a canary in {what}", quiet, replace(quiet, updates=(moved,)), moved)


def many_updates(
    clip: float, neighbours: Neighbours, zero: float, *, fixed: bool
) -> Iterator[Game]:
    """Games for a mechanism that takes the updates of many clients, or gradients of many samples.

    With `fixed`, the number of contributors is public: a canary that is absent sends zeros.
    """
    direction = canary()
    still = times(direction, zero * clip)
    others = (still,) * (FEW if fixed else OTHERS)
    start = nothing()

    def world(own: Update | None, beside: tuple[Update, ...] = others) -> World:
        updates = beside if own is None else (own, *beside)
        return World(start, updates, (COUNT,) * len(updates))

    absent = world(still if fixed else None)
    for factor, name in (
        (1.0, "a canary at the clip norm"),
        (FAR, f"a canary of {FAR:,.0f} times the clip norm"),
    ):
        replaced = world(times(direction, -clip * factor))
        quiet = replaced if neighbours == "replace" else absent
        yield _game(name, quiet, world(times(direction, clip * factor)), direction)
    single, other = one_entry(), one_entry(1, 5)
    busy = (times(ramp(), clip / 2),) * len(others)
    for beside, name in ((others, "a canary in one entry"), (busy, "the same among busy others")):
        gone = times(other, clip) if neighbours == "replace" else still if fixed else None
        mine = minus(single, other) if neighbours == "replace" else single
        yield _game(name, world(gone, beside), world(times(single, clip), beside), mine)
    loud = world(times(direction, clip))
    quiet = world(times(direction, -clip)) if neighbours == "replace" else absent
    yield Game("two rounds, the canary in the first", (quiet, absent), (loud, absent), direction)
    late = (1, LATE)
    yield Game("a late round, the canary in it", (absent, quiet), (absent, loud), direction, late)


def _game(name: str, quiet: World, loud: World, direction: Update) -> Game:
    return Game(name, (quiet,), (loud,), direction)
