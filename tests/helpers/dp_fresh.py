"""Faults of a third set: written after the verifier's code was read, before it was asked.

Each is right but for its fault, and claims ε = 4 at δ = 1e-5. It refuted 12 of 14, and learned from
the two that send the largest entries of a clean sum or of a replaced update.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from dp_seeded import CLIP, NOISE, Fault, noised, total

from fedpriv.simulations.dp.reference import clipped, norm
from fedpriv.simulations.dp.releases import Release, Session
from fedpriv.simulations.dp.worlds import Update, World

SCALE = NOISE * CLIP


def flat(update: Update) -> np.ndarray:
    return np.concatenate([value.ravel() for value in update.values()])


def shaped(values: np.ndarray, like: Update) -> Update:
    ends = np.cumsum([value.size for value in like.values()])[:-1]
    parts = np.split(values, ends)
    return {k: p.reshape(v.shape) for (k, v), p in zip(like.items(), parts, strict=True)}


def large_entries(update: Update) -> Update:
    """Entries above the mean of the clean sizes are sent with noise, the others as zeros."""
    held = clipped(update, CLIP)
    size = np.abs(flat(held))
    kept = np.where(size >= size.mean(), flat(noised(held, SCALE)), 0.0)
    return shaped(kept, held)


def largest_of_the_sum(updates: Sequence[Update]) -> Update:
    """A server sends the entries that are largest in the clean sum; ties are broken by chance."""
    summed = total([clipped(u, CLIP) for u in updates])
    size = np.abs(flat(summed))
    order = np.lexsort((np.random.random(size.size), -size))
    kept = np.zeros(size.size)
    kept[order[: size.size // 4]] = flat(noised(summed, SCALE))[order[: size.size // 4]]
    return shaped(kept, summed)


def largest_entry_elsewhere(update: Update) -> Update:
    """As largest entries, of all layers together; its noise fits replacing, and its places not."""
    held = clipped(update, CLIP)
    order = np.argsort(np.abs(flat(held)), kind="stable")[::-1]
    kept = np.zeros(order.size)
    kept[order[:4]] = flat(noised(held, 2 * SCALE))[order[:4]]
    return shaped(kept, held)


def steps_of_the_clean_update(update: Update) -> Update:
    """Rounded to 8 bits after noise, with steps of the clean update's largest entry."""
    held = clipped(update, CLIP)
    step = max(float(np.abs(flat(held)).max()), 1e-3) / 127
    return {k: np.round(v / step) * step for k, v in noised(held, SCALE).items()}


def uniform_noise(update: Update) -> Update:
    """Uniform noise of the Gaussian's variance: its range moves with the update."""
    wide = SCALE * np.sqrt(3)
    return {
        k: v + np.random.uniform(-wide, wide, v.shape) for k, v in clipped(update, CLIP).items()
    }


def opposite_pairs(update: Update) -> Update:
    """Every second entry has the opposite of its neighbour's noise: sums of pairs are bare."""
    held = clipped(update, CLIP)
    noise = SCALE * np.random.standard_normal(flat(held).size)
    noise[1::2] = -noise[: noise.size - 1 : 2]
    return shaped(flat(held) + noise, held)


def told_if_clipped(update: Update) -> Update:
    """A metric says whether the update had to be clipped."""
    return noised(clipped(update, CLIP), SCALE) | {"clipped": np.asarray(norm(update) > CLIP)}


def packed_size(update: Update) -> Update:
    """The size of the packed update is reported, as bandwidth; it was packed without noise."""
    held = clipped(update, CLIP)
    size = len(zlib.compress(flat(held).astype(np.float32).tobytes()))
    return noised(held, SCALE) | {"bytes": np.asarray(size)}


def outlier_dropped(update: Update) -> Update:
    """An update of more than ten norms is taken for broken, and zeros are sent for it."""
    if norm(update) > 10 * CLIP:
        return {k: np.zeros_like(v, np.float64) for k, v in update.items()}
    return noised(clipped(update, CLIP), SCALE)


def last_row_bare(update: Update) -> Update:
    """The last row of the weights is left out of the noise, by an index that is off by one."""
    held = clipped(update, CLIP)
    noisy = noised(held, SCALE)
    noisy["weight"][-1] = held["weight"][-1]
    return noisy


def bias_beside_the_norm(update: Update) -> Update:
    """The norm is taken of the weights alone, and the bias passes as long as it is."""
    weights = clipped({k: v for k, v in update.items() if k != "bias"}, CLIP)
    return noised(weights | {"bias": update["bias"].astype(np.float64)}, SCALE)


def some_less_noise(update: Update) -> Update:
    """An eighth of the noise is missing: ε is 4.67."""
    return noised(clipped(update, CLIP), SCALE * 0.875)


@dataclass
class Rounds:
    """A mechanism that remembers: what it adds follows from the noise of the round before."""

    name: str
    kept: float  # of the last noise
    fresh: float
    takes: str = "update"
    fixed: bool = False

    def session(self) -> Session:
        last: dict[str, np.ndarray] = {}

        def release(world: World, _: int) -> Release:
            held = clipped(world.updates[0], CLIP)
            noise = {
                k: self.kept * last.get(k, np.zeros(v.shape))
                + (self.fresh if k in last else 1.0) * SCALE * np.random.standard_normal(v.shape)
                for k, v in held.items()
            }
            last.update(noise)
            return {k: v + noise[k] for k, v in held.items()}

        return release


def error_feedback() -> Rounds:
    """What noise did to a round is taken back in the next, as an error of sending."""
    return Rounds("error feedback", -1.0, 0.02)


def slow_noise() -> Rounds:
    """Noise that moves little from round to round, so that training is smooth."""
    return Rounds("slow noise", 0.995, 0.1)


largest_of_the_sum.takes = "updates"  # type: ignore[attr-defined]
largest_of_the_sum.fixed = True  # type: ignore[attr-defined]
ERROR_FEEDBACK, SLOW_NOISE = error_feedback(), slow_noise()

HERE = "dp_fresh"
FRESH: tuple[Fault, ...] = (
    Fault("entries above the mean", f"{HERE}:large_entries", "their places have no noise"),
    Fault("largest of the sum", f"{HERE}:largest_of_the_sum", "their places have no noise"),
    Fault(
        "largest of all layers, replaced",
        f"{HERE}:largest_entry_elsewhere",
        "their places have no noise",
        neighbours="replace",
    ),
    Fault("steps of the clean update", f"{HERE}:steps_of_the_clean_update", "the grid is bare"),
    Fault("uniform noise", f"{HERE}:uniform_noise", "its range moves with the update"),
    Fault("opposite pairs of noise", f"{HERE}:opposite_pairs", "sums of pairs have no noise"),
    Fault("told if clipped", f"{HERE}:told_if_clipped", "a metric is part of the message"),
    Fault("packed size", f"{HERE}:packed_size", "a size is part of the message"),
    Fault("outlier dropped", f"{HERE}:outlier_dropped", "zeros say that it was long"),
    Fault("last row bare", f"{HERE}:last_row_bare", "each entry needs noise"),
    Fault("bias beside the norm", f"{HERE}:bias_beside_the_norm", "the bias is not clipped"),
    Fault("an eighth of the noise missing", f"{HERE}:some_less_noise", "ε is 4.67", true=4.67),
    Fault("noise taken back", f"{HERE}:ERROR_FEEDBACK", "the sum of two rounds is bare"),
    Fault("slow noise", f"{HERE}:SLOW_NOISE", "the difference of two rounds is bare"),
)
