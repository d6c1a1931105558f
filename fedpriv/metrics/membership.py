"""How exposed members are: the share of held-out samples that an attacker would accuse with them.

A member's score alone says nothing. What counts is how many samples that were never trained on
score at least as high: that is the false-positive rate at which the member is found. The ROC curve,
its area, the true-positive rate at any false-positive rate and the advantage all follow from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from fedpriv.errors import BadInput
from fedpriv.metrics.rates import exact_interval

USUAL, STRICT = 0.01, 0.001  # false-positive rates that the literature reports (LiRA)


def false_alarms(members: Tensor, others: Tensor) -> Tensor:
    """(N, 2): the shares of held-out scores that are above each member's, and at least as high."""
    if not len(members) or not len(others):
        raise BadInput(
            f"Membership is judged on members and held-out samples; got {len(members)} members and "
            f"{len(others)} held-out samples."
        )
    ordered, own = others.double().sort().values, members.double().contiguous()
    above = len(others) - torch.searchsorted(ordered, own, right=True)
    at_least = len(others) - torch.searchsorted(ordered, own, right=False)
    return torch.stack([above, at_least], 1).double() / len(others)


def rank(alarms: Tensor, truth: Tensor) -> Tensor:
    """The share of held-out samples that score below the member, ties half; its mean is the AUC."""
    return 1 - alarms.mean(dim=1)


def rate(alarms: Tensor, truth: Tensor) -> Tensor:
    """The false-positive rate at which the member is found: ties are accused with it."""
    return alarms[:, 1]


def found(alarms: Tensor, truth: Tensor) -> Tensor:
    """1 where the member is found with at most 1 % of the held-out samples accused."""
    return (alarms[:, 1] <= USUAL).double()


def found_strictly(alarms: Tensor, truth: Tensor) -> Tensor:
    """1 where the member is found with at most 0.1 % of the held-out samples accused."""
    return (alarms[:, 1] <= STRICT).double()


@dataclass(frozen=True)
class Exposure:
    """One attack in figures: `low` and `high` belong to the figure before them, at 95 %.

    `auc_error` is the standard error of the AUC (Hanley and McNeil 1982).
    """

    members: int
    others: int
    auc: float
    auc_error: float
    found: float
    found_low: float
    found_high: float
    strict: float
    strict_low: float
    strict_high: float
    advantage: float

    @property
    def balanced(self) -> float:
        """Balanced accuracy at the best threshold."""
        return (1 + self.advantage) / 2


def exposure(rates: Sequence[float], ranks: Sequence[float], others: int) -> Exposure:
    """The figures of an attack, from the two columns of its members' scores."""
    alarms, auc, count = np.asarray(rates, float), float(np.mean(ranks)), len(rates)
    figures: dict[str, float] = {}
    for name, most in (("found", USUAL), ("strict", STRICT)):
        hits = int((alarms <= most).sum())
        low, high = exact_interval(hits, count)
        figures |= {name: hits / count, f"{name}_low": low, f"{name}_high": high}
    _, true_rates = curve(alarms)
    best = float((true_rates - np.sort(alarms)).max())
    error = auc_error(auc, count, others)
    return Exposure(
        members=count,
        others=others,
        auc=auc,
        auc_error=error,
        advantage=max(0.0, best),
        **figures,
    )


def chance_found(hits: int, members: int, others: int, most: float = USUAL) -> float:
    """The chance that scores without meaning find so many members at this false-positive rate.

    The rate itself is measured on the held-out samples, so that hits are not binomial. k of them
    may be accused; at least `hits` members are found if and only if the first hits + k of all
    samples hold that many members, which is hypergeometric: exact for any number of samples.
    """
    accused = math.floor(most * others)
    if hits + accused > members + others:
        return 0.0
    return float(scipy.stats.hypergeom.sf(hits - 1, members + others, members, hits + accused))


def alarms_for(most: float, others: int, level: float) -> int:
    """So many of the held-out samples may be accused that the true rate is `most` or more.

    A threshold is set by few held-out samples, and the rate that they show is inexact. The share of
    all samples above the (k + 1)-th of n is below `most` as often as n draws have more than k hits.
    """
    return int(scipy.stats.binom.ppf(level, others, most))


def curve(rates: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ROC curve: false-positive rates in ascending order, and true-positive rates."""
    ordered = np.sort(np.asarray(rates, float))
    return ordered, np.searchsorted(ordered, ordered, side="right") / len(ordered)


def auc_error(auc: float, members: int, others: int) -> float:
    """The standard error of an AUC (Hanley and McNeil 1982, eq. 2)."""
    q1, q2, square = auc / (2 - auc), 2 * auc**2 / (1 + auc), auc**2
    spread = auc * (1 - auc) + (members - 1) * (q1 - square) + (others - 1) * (q2 - square)
    return math.sqrt(max(spread, 0.0) / (members * others))
