"""What several seeds say together: the mean of paired differences and its interval.

Every seed is one whole training with its own attackers. Values of two settings with the same seed
are compared with each other first, so that what a seed has in common does not count.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fedpriv.simulations.reproduce.experiment import FEWEST, Finding, Lacking
from fedpriv.tables import Row

LEVEL = 0.95
BySeed = dict[int, float]


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % interval by Student's t; unbounded for too few seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    def said(self, scale: float = 1.0, unit: str = "", digits: int = 1) -> str:
        """`+51.2 % (95 %: +30.0 to +72.4, 3 seeds)`."""
        if math.isinf(self.low):
            return (
                f"{scale * self.mean:+.{digits}f}{unit} ({self.seeds} of at least {FEWEST} seeds)"
            )
        mean, low, high = (f"{scale * x:+.{digits}f}" for x in (self.mean, self.low, self.high))
        return f"{mean}{unit} (95 %: {low} to {high}, {self.seeds} seeds)"


def over(values: Mapping[int, float] | Sequence[float]) -> Interval:
    """The mean of one value a seed, and its interval."""
    numbers = np.array(list(values.values() if isinstance(values, Mapping) else values), float)
    if not len(numbers):
        raise Lacking("some of its cells have not been run yet")
    if len(numbers) < FEWEST:
        return Interval(float(numbers.mean()), -math.inf, math.inf, len(numbers))
    half = stats.t.ppf((1 + LEVEL) / 2, len(numbers) - 1) * stats.sem(numbers)
    mean = float(numbers.mean())
    return Interval(mean, mean - float(half), mean + float(half), len(numbers))


def by_seed(
    rows: Sequence[Row],
    column: str,
    pick: Callable[[Sequence[float]], float] = min,
    **where: object,
) -> BySeed:
    """One value a seed of the rows that have these values; `pick` chooses among several.

    `min` is the strongest of several decoders by their error, `max` the best of several thieves.
    A value of `where` may be a tuple of those that are allowed.
    """

    def fits(row: Row) -> bool:
        return all(
            row.get(key) in wanted if isinstance(wanted, tuple) else row.get(key) == wanted
            for key, wanted in where.items()
        )

    found: dict[int, list[float]] = {}
    for row in rows:
        if fits(row) and row.get(column, "") != "":
            found.setdefault(int(row["seed"]), []).append(float(row[column]))
    return {seed: pick(values) for seed, values in found.items()}


def differences(a: BySeed, b: BySeed) -> BySeed:
    """a − b of every seed that both have."""
    return {seed: a[seed] - b[seed] for seed in a if seed in b}


def relative(a: BySeed, b: BySeed) -> BySeed:
    """a/b − 1 of every seed that both have."""
    return {seed: a[seed] / b[seed] - 1 for seed in a if seed in b}


def above(found: Interval, bound: float = 0.0) -> str:
    """`yes`, `no` or `open`: whether all of the interval lies above the bound, or below it."""
    return "yes" if found.low > bound else "no" if found.high < bound else "open"


def ruled(answers: Sequence[str], result: str, against: str) -> Finding:
    """Reproduced if every part of the claim holds, refuted if one does not, else undecided."""
    if "no" in answers:
        return Finding("refuted", result, against)
    if all(answer == "yes" for answer in answers):
        return Finding("reproduced", result, against)
    return Finding("undecided", result, against)
