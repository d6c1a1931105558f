"""Exact bounds for a share of victims, from how many of them were hit (Clopper and Pearson 1934).

A victim is hit or not, so that the number of hits is binomial. These bounds hold for every number
of victims, also for none or all of them hit, where a bootstrap interval has no width. Samples of
one update may be hit together: `independent` says how many independent samples they are worth.
"""

import math
from collections.abc import Sequence
from typing import Any

import scipy

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


def mean_at_most(shares: Sequence[float], level: float = 0.95) -> float:
    """The mean share of all clients is at most this, from the shares that were seen of some.

    1 - ((1 - level) · Π (1 - x))^(1 / n). The product of n independent shares x is (1 - mean)^n on
    average, and is 1 / (1 - level) times as large with a chance of at most 1 - level (Markov). So
    this holds however the samples of a client go together. Where all shares are 0 it is `at_most`.
    """
    if not shares or not 0 < level < 1 or not all(0 <= share <= 1 for share in shares):
        raise BadInput(f"A mean needs shares and a level between 0 and 1; got {shares}, {level}.")
    kept = (1 - level) * math.prod(1 - share for share in shares)
    return 1.0 - float(kept ** (1 / len(shares)))


def victims_for(share: float, level: float = 0.95) -> int:
    """How many victims without a hit it takes to say "at most this share" (29 for 10 %, 95 %)."""
    if not 0 < share < 1 or not 0 < level < 1:
        raise BadInput(f"share and level must be between 0 and 1; got {share}, {level}.")
    return math.ceil(math.log(1 - level) / math.log(1 - share))


def independent(hits: Sequence[int], sizes: Sequence[int]) -> float:
    """How many independent samples clients with so many hits of so many samples are worth.

    The variance of the share between clients against that of as many samples drawn alone (Kish's
    design effect), with Student's correction for few clients (Korn and Graubard 1998). A client
    counts as one sample where nothing varies, since then nobody knows whether samples of a client
    are hit together. Never more than there are samples, never fewer than clients.
    """
    total, clients = sum(sizes), len(sizes)
    share = sum(hits) / total
    if clients == total or clients < 2 or share in (0.0, 1.0):
        return float(clients)
    apart = sum((h - share * n) ** 2 for h, n in zip(hits, sizes, strict=True))
    variance = clients / (clients - 1) * apart / total**2
    few = (
        float(scipy.stats.t.ppf(LEVEL, total - 1)) / float(scipy.stats.t.ppf(LEVEL, clients - 1))
    ) ** 2
    worth = share * (1 - share) / variance * few if variance > 0 else total * few
    return min(float(total), max(float(clients), worth))


def share_between(share: float, worth: float, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share that was seen in so many samples, which need not be whole."""
    low, high = (1 - level) / 2, (1 + level) / 2
    hits = share * worth
    return (
        0.0 if hits <= 0 else float(scipy.stats.beta.ppf(low, hits, worth - hits + 1)),
        1.0 if hits >= worth else float(scipy.stats.beta.ppf(high, hits + 1, worth - hits)),
    )


def _test(hits: int, victims: int, level: float, side: str) -> Any:
    if not 0 <= hits <= victims or victims < 1 or not 0 < level < 1:
        raise BadInput(
            f"A share needs 0 to {victims} hits, one or more victims and a level between 0 and 1; "
            f"got {hits} hits, level {level}."
        )
    return scipy.stats.binomtest(hits, victims, alternative=side).proportion_ci(
        level, method="exact"
    )
