"""What pilot draws show by itself: parts without noise, noise that repeats or follows the data.

These are names for what was seen, and no proof: noise that strikes seldom looks the same. What they
are worth is bounded on fresh draws, by counting, as everything else.
"""

from collections.abc import Iterator

import numpy as np
from scipy.stats import f as fisher

from fedpriv.simulations.dp.findings import FALSE_REFUTATION, Finding
from fedpriv.simulations.dp.releases import BAD, BESIDE, DIFFERENCE, Rows
from fedpriv.simulations.dp.worlds import Game

ROUNDING = 1e-6  # differences of float32 numbers that had the same noise
FEW = 0.05  # the share of releases that may be equal by rounding


def exact_parts(game: Game, quiet: Rows, loud: Rows) -> Iterator[Finding]:
    """Parts with one value in every release of a world, and another in the other world."""
    a, b = quiet.values, loud.values
    gap = np.abs(b.mean(0) - a.mean(0))
    wobble = np.maximum(np.ptp(a, axis=0), np.ptp(b, axis=0))
    limit = np.zeros_like(gap)
    for name, part in quiet.fields.items():
        if name.startswith(DIFFERENCE):
            limit[part] = ROUNDING * np.maximum(gap[part], np.abs(a[:, part]).max(initial=0.0))
            own = name.partition(": ")[2]
            noise = np.ptp(quiet.values[:, quiet.fields[f"round 1: {own}"]], axis=0)
            # What has no noise in a single round is found there, and not as noise that repeats.
            limit[part] = np.where(noise > 0, np.maximum(limit[part], ROUNDING * noise), np.inf)
    exact = (wobble <= limit) & (gap > limit)
    for name in dict.fromkeys(quiet.column(int(i)) for i in np.flatnonzero(exact)):
        if name == BAD:
            cause = "entries are missing or not finite in one world only"
        elif name.rpartition(": ")[2] in BESIDE:
            cause = f"the {name.rpartition(': ')[2]}: not the same in both worlds"
        elif name.startswith(DIFFERENCE):
            cause = f"noise repeats over rounds in '{name.partition(': ')[2]}'"
        elif _silent(game, name) and np.abs(a[:, quiet.fields[name]]).max() > 0:
            cause = f"noise repeats: '{name}' has the same in every release"
        else:
            cause = f"'{name.rpartition(': ')[2]}' has no noise"
        index = next(int(i) for i in np.flatnonzero(exact) if quiet.column(int(i)) == name)
        yield Finding(
            cause,
            f"{game.name}: {a[0, index]:.6g} without and {b[0, index]:.6g} with it, in each of "
            f"{len(a)} releases of either world",
            bare=True,
        )


def _silent(game: Game, name: str) -> bool:
    """Whether zeros went in under this name, so that what comes out is noise."""
    sent = [update[name] for update in game.quiet[0].updates if name in update]
    return bool(sent) and not any(np.abs(value).max() > 0 for value in sent)


def repeats(game: Game, quiet: Rows, loud: Rows) -> Iterator[Finding]:
    """Releases that have noise, but the same noise again: as discrete noise of few values does, so
    that it is a note.
    """
    values = quiet.values
    noisy = np.ptp(values, axis=0) > 0
    if noisy.sum() < 2:
        return
    different = len(np.unique(values[:, noisy], axis=0))
    share = 1 - different / len(values)
    if share > FEW:
        yield Finding(
            "noise repeats",
            f"{game.name}: {len(values)} releases have {different} different values",
        )


def sizes(game: Game, quiet: Rows, loud: Rows) -> Iterator[Finding]:
    """Noise whose size differs between neighbours: it tells how much data there is.

    An F test of the variance in every column, corrected for their number. It names, it does not
    refute: how much the size tells is bounded by the games themselves.
    """
    a, b = quiet.values.var(0, ddof=1), loud.values.var(0, ddof=1)
    noisy = np.minimum(a, b) > (ROUNDING * np.abs(quiet.values).max(0)) ** 2
    if not noisy.any():
        return
    ratio = b[noisy] / a[noisy]
    free = len(quiet.values) - 1
    chance = 2 * np.minimum(fisher.sf(ratio, free, free), fisher.cdf(ratio, free, free))
    if chance.min() * noisy.sum() < FALSE_REFUTATION / 10:
        at = int(np.argmin(chance))
        name = quiet.column(int(np.flatnonzero(noisy)[at])).rpartition(": ")[2]
        yield Finding(
            "the noise differs between neighbours",
            f"{game.name}: standard deviation of '{name}' {np.sqrt(a[noisy][at]):.4g} without and "
            f"{np.sqrt(b[noisy][at]):.4g} with it",
        )
