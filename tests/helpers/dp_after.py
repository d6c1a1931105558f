"""Faults of a fourth set: written after the verifier's last change, and tried once.

Each is right but for its fault, and claims ε = 4 at δ = 1e-5. The verifier was not changed after it
had answered. `docs/howto/verify-dp.md` says what it answered.
"""

from collections.abc import Sequence

import numpy as np
from dp_fresh import flat, shaped
from dp_seeded import CLIP, NOISE, Fault, noised, total

from fedpriv.simulations.dp.reference import clipped, norm
from fedpriv.simulations.dp.worlds import Update

SCALE = NOISE * CLIP
SIGNS = np.random.default_rng(5).choice([-1.0, 1.0], (12, 36))


def signs_kept(update: Update) -> Update:
    """Sizes have noise, and signs are those of the clean update."""
    held = clipped(update, CLIP)
    return {k: np.sign(held[k]) * np.abs(v) for k, v in noised(held, SCALE).items()}


def noise_times_entry(update: Update) -> Update:
    """Noise is a factor of every entry, so that a small entry has little of it."""
    return {
        k: v * (1 + SCALE * np.random.standard_normal(v.shape))
        for k, v in clipped(update, CLIP).items()
    }


def places_listed(update: Update) -> Update:
    """Two arrays: noisy values, and the places of the eight largest clean entries."""
    held = clipped(update, CLIP)
    places = np.argsort(-np.abs(flat(held)), kind="stable")[:8]
    return {"values": flat(noised(held, SCALE))[places], "places": places}


def sketched(update: Update) -> Update:
    """Twelve sums of signed entries, with noise for one: together they move √12 times as far."""
    sums = SIGNS @ flat(clipped(update, CLIP))
    return {"sketch": sums + SCALE * np.random.standard_normal(sums.shape)}


def mean_clipped(updates: Sequence[Update]) -> Update:
    """The mean is clipped, and no single update is: one client can move it by the whole norm."""
    count = len(updates)
    mean = {k: v / count for k, v in total(updates).items()}
    return noised(clipped(mean, CLIP), SCALE / count)


def shares_missing(updates: Sequence[Update]) -> Update:
    """Each client adds its share of the noise, and one of them leaves after it was planned."""
    count = len(updates)
    share = SCALE / np.sqrt(count)
    parts = [noised(clipped(u, CLIP), share if at else 0.0) for at, u in enumerate(updates)]
    return total(parts)


def norm_by_the_data(updates: Sequence[Update]) -> Update:
    """The norm is the largest of the updates' own, and the noise follows it."""
    bound = min(CLIP, max(norm(update) for update in updates)) or 1e-3
    return noised(total([clipped(u, bound) for u in updates]), NOISE * bound)


def rounded_norm(update: Update) -> Update:
    """A log line has the clean norm with one digit."""
    held = clipped(update, CLIP)
    return noised(held, SCALE) | {"norm": np.asarray(round(norm(held), 1))}


def sorted_by_size(update: Update) -> Update:
    """Noisy entries in the order of the clean ones; noise for replacing, and none on the order."""
    held = clipped(update, CLIP)
    order = np.argsort(-flat(held), kind="stable")
    noisy = flat(noised(held, 2 * SCALE))
    places = np.where(np.arange(order.size) < 18, 1.0, -1.0)
    return shaped(noisy, held) | {"upper half": places[np.argsort(order)]}


for _function in (mean_clipped, shares_missing, norm_by_the_data):
    _function.takes = "updates"  # type: ignore[attr-defined]
    _function.fixed = True  # type: ignore[attr-defined]

HERE = "dp_after"
AFTER: tuple[Fault, ...] = (
    Fault("signs kept", f"{HERE}:signs_kept", "signs have no noise"),
    Fault("noise as a factor", f"{HERE}:noise_times_entry", "zeros have no noise"),
    Fault("places listed", f"{HERE}:places_listed", "places have no noise"),
    Fault("sums of signed entries", f"{HERE}:sketched", "twelve sums move √12 times as far"),
    Fault("the mean clipped", f"{HERE}:mean_clipped", "one client can move it by the norm"),
    Fault("a share of the noise missing", f"{HERE}:shares_missing", "√(2/3) of the noise"),
    Fault("norm by the data", f"{HERE}:norm_by_the_data", "the noise tells the norm"),
    Fault("norm with one digit", f"{HERE}:rounded_norm", "a log line is part of the message"),
    Fault(
        "order of the clean update",
        f"{HERE}:sorted_by_size",
        "the order has no noise",
        neighbours="replace",
    ),
)
