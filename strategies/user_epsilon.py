"""What user-level noise is worth: ε of a number of Gaussian releases, by their privacy loss."""

import math
from functools import lru_cache

LARGEST = 1e4  # twice the ε beyond which nothing is counted
ACCOUNTANT = "PLD (dp-accounting)"
NEIGHBOURS = "one client's update is replaced by none; who answers is public"


@lru_cache(maxsize=1024)
def user_epsilon(noise_multiplier: float, releases: int, delta: float) -> float:
    """ε at `delta` of so many releases, each with noise `noise_multiplier` times one client's part.

    No amplification by sampling is counted: which clients are asked follows from the public seed.
    The losses are put into bins of a ten-thousandth of their expected size. Infinity stands for an
    ε of thousands, which protects nobody.
    """
    if releases == 0:
        return 0.0
    size = releases / noise_multiplier**2
    if size > LARGEST:
        return math.inf
    from dp_accounting import GaussianDpEvent, NeighboringRelation  # a second to import
    from dp_accounting.pld import PLDAccountant

    interval = 1e-4 * max(1.0, size)
    accountant = PLDAccountant(
        NeighboringRelation.REPLACE_SPECIAL, value_discretization_interval=interval
    )
    accountant.compose(GaussianDpEvent(noise_multiplier), releases)
    return float(accountant.get_epsilon(delta))
