"""ε of steps that draw their batches, from what was measured of single rounds.

With batches that are drawn, the score of a canary is not normal: it is in some steps and not in
others. But the noise of a round is, and can be measured on canaries that are out. With the rate and
the number of steps, which are public, noise and canary give ε by privacy loss distributions.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, norm

from fedpriv.simulations.dp.accounting import Account, exact
from fedpriv.simulations.dp.bounds import why_not_gaussian

LEAST = 0.1  # times what a canary adds: with less noise the distributions do not fit into memory


@dataclass(frozen=True)
class Rounds:
    """What was seen of each canary in each round (R, m), which are in (m,), and public numbers."""

    values: np.ndarray
    inside: np.ndarray
    rate: float  # with which a step takes a sample
    steps: int  # of one round

    @property
    def why_not(self) -> str | None:
        """Why the noise of a round is not Gaussian, or not of one size; None if it may be."""
        outside = self.values[:, ~self.inside]
        return why_not_gaussian(outside[0], outside[-1])


def most_noise(seen: Rounds, significance: float) -> float:
    """The noise of a step over what a canary adds to it, from above; infinite if it adds nothing.

    Each of the two has half of the significance: a χ² interval of the noise, and a normal one of
    the canary, which is the difference of two means of many sums over rounds.
    """
    rounds = len(seen.values)
    outside = seen.values[:, ~seen.inside]
    free = outside.size - rounds
    squares = ((outside - outside.mean(1, keepdims=True)) ** 2).sum()
    noise = math.sqrt(squares / chi2.ppf(significance / 2, free) / seen.steps)
    with_it, without = seen.values[:, seen.inside].sum(0), outside.sum(0)
    error = math.sqrt(with_it.var() / len(with_it) + without.var() / len(without))
    gap = float(with_it.mean() - without.mean()) - norm.isf(significance / 2) * error
    return noise * rounds * seen.steps * seen.rate / gap if gap > 0 else math.inf


def sampled_epsilon(seen: Rounds, significance: float, delta: float) -> float:
    """A lower bound of ε from the noise that was measured."""
    noise = most_noise(seen, significance)
    if not 0 < noise < math.inf:
        return 0.0
    account = Account(
        noise=max(noise, LEAST),  # more noise has less ε, so that this is a lower bound too
        rate=seen.rate,
        steps=seen.steps,
        rounds=len(seen.values),
        delta=delta,
        sampling="poisson",
    )
    return exact(account)[0]
