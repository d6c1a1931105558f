"""ε of one training run with many canaries, each in or out by its own coin.

Two bounds from the number of right guesses: by (ε, δ) alone (arXiv 2305.08846) and by the
trade-off curve of Gaussian noise (arXiv 2410.22235), which is tighter.
"""

from collections.abc import Callable
from dataclasses import dataclass

import dp_accounting
import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri
from scipy.stats import binom


@dataclass(frozen=True)
class Guesses:
    """How many canaries there were, how many were guessed to be in, and how many of those were."""

    canaries: int
    made: int
    right: int

    @staticmethod
    def at(threshold: float, inside: np.ndarray, outside: np.ndarray) -> "Guesses":
        right, wrong = int((inside >= threshold).sum()), int((outside >= threshold).sum())
        return Guesses(len(inside) + len(outside), right + wrong, right)


def chance(guesses: Guesses, epsilon: float, delta: float) -> float:
    """The largest chance of so many right guesses under (ε, δ) (arXiv 2305.08846, theorem 5.2)."""
    made, right = guesses.made, guesses.right
    each = expit(epsilon)
    base = float(binom.sf(right - 1, made, each))
    if delta == 0 or right == 0:
        return min(base, 1.0)
    fewer = np.arange(1, right + 1)
    slack = (binom.sf(right - fewer - 1, made, each) - base) / fewer
    return min(1.0, base + 2 * guesses.canaries * delta * max(0.0, float(slack.max())))


def one_run(guesses: Guesses, significance: float, delta: float) -> float:
    """The largest ε at which so many right guesses have a chance of at most `significance`."""
    if not guesses.made:
        return 0.0
    return _largest(lambda epsilon: significance - chance(guesses, epsilon, delta))


def fdp_excess(guesses: Guesses, shift: float, significance: float) -> float:
    """Above 0 when so many right guesses refute μ-GDP (arXiv 2410.22235, algorithm 3).

    `r` and `h` are the shares of canaries that are guessed rightly and wrongly in the event of
    at least that many right guesses; the recursion bounds them from below, guess by guess.
    """
    total, made, right = guesses.canaries, guesses.made, guesses.right
    r, h = significance * right / total, significance * (made - right) / total
    for i in range(right - 1, -1, -1):
        least = float(ndtr(ndtri(r) - shift))
        if least <= h:
            break
        r, h = min(1.0, r + i / (made - i) * (least - h)), least
    return r + h - made / total


def one_run_fdp(guesses: Guesses, significance: float, delta: float) -> float:
    """The largest ε whose Gaussian mechanism is refuted by so many right guesses."""
    if not guesses.made:
        return 0.0

    def excess(epsilon: float) -> float:
        sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
        return fdp_excess(guesses, 1 / sigma, significance)

    return _largest(excess)


def _largest(refutes: Callable[[float], float]) -> float:
    """The ε up to which `refutes` is above 0; it falls with ε."""
    if refutes(0.0) <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while refutes(high) > 0:
        low, high = high, 2 * high
        if high > 1e6:
            return low
    return float(brentq(refutes, low, high, xtol=1e-9))
