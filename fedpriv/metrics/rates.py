"""Exact bounds for a share of victims, from how many of them were hit (Clopper and Pearson 1934).

A victim is hit or not, so that the number of hits is binomial. These bounds hold for every number
of victims, also for none or all of them hit, where a bootstrap interval has no width.
"""

import math
from typing import Any

from scipy.stats import binomtest

from fedpriv.errors import BadInput

SHARE, LEVEL = 0.1, 0.95  # the claim "at most a tenth of the samples", and how sure it is


def exact_interval(hits: int, victims: int, level: float = 0.95) -> tuple[float, float]:
    """(low, high): both sides together miss the true share with a chance of at most 1 - level."""
    found = _test(hits, victims, level, "two-sided")
    return float(found.low), float(found.high)


def at_most(hits: int, victims: int, level: float = 0.95) -> float:
    """The share of all samples that is hit is at most this, with confidence `level`."""
    return float(_test(hits, victims, level, "less").high)


def at_least(hits: int, victims: int, level: float = 0.95) -> float:
    """The share of all samples that is hit is at least this, with confidence `level`."""
    return float(_test(hits, victims, level, "greater").low)


def victims_for(share: float, level: float = 0.95) -> int:
    """How many victims without a hit it takes to say "at most this share" (29 for 10 %, 95 %)."""
    if not 0 < share < 1 or not 0 < level < 1:
        raise BadInput(f"share and level must be between 0 and 1; got {share}, {level}.")
    return math.ceil(math.log(1 - level) / math.log(1 - share))


def _test(hits: int, victims: int, level: float, side: str) -> Any:
    if not 0 <= hits <= victims or victims < 1 or not 0 < level < 1:
        raise BadInput(
            f"A share needs 0 to {victims} hits, one or more victims and a level between 0 and 1; "
            f"got {hits} hits, level {level}."
        )
    return binomtest(hits, victims, alternative=side).proportion_ci(level, method="exact")
