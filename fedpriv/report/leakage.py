"""How much leaked: which way a metric is bad, the worst victim, medians with bootstrap
intervals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedpriv.catalogue import METRICS
from fedpriv.metrics.images import CEILING
from fedpriv.metrics.intervals import bootstrap
from fedpriv.metrics.metric import Metric

DRAWS = 200_000  # of one interval: many victims need fewer resamples


@dataclass(frozen=True)
class Measure:
    """A metric of a report: its name, which way is worse, and the worst that is allowed."""

    name: str
    metric: Metric
    bound: float | None = None

    @property
    def word(self) -> str:
        """Its name as people write it."""
        return self.metric.said or self.name

    @property
    def high(self) -> bool:
        """Whether a high value means leakage."""
        return self.metric.leaks == "high"

    @property
    def unit(self) -> str:
        return self.metric.unit

    @property
    def blind(self) -> str:
        """The column that holds the blind guess's values."""
        return f"{self.name}-blind"

    def shown(self, value: float | None) -> str:
        return self.metric.shown(value)

    def crosses(self, value: float) -> bool:
        """Whether a value is worse than the bound allows."""
        return self.bound is not None and self.metric.beyond(value, self.bound)

    def near(self, value: float) -> bool:
        """Whether a value lies within a quarter of the bound."""
        if self.bound is None:
            return False
        slack = 0.25 * abs(self.bound)
        return value > self.bound - slack if self.high else value < self.bound + slack

    def worst_first(self, scores: pd.DataFrame) -> pd.DataFrame:
        return scores.sort_values(self.name, ascending=not self.high, kind="stable")


@dataclass(frozen=True)
class Summary:
    """A group of victims in numbers: median with its interval, the worst, the share over the
    bound.
    """

    count: int
    median: float
    low: float
    high: float
    worst: float
    blind: float  # the median of the blind guess; nan when there is none
    over: int
    share: float
    share_low: float
    share_high: float


def measures(scores: pd.DataFrame, gate: Mapping[str, float] | None = None) -> list[Measure]:
    """The metrics that the scores hold, the gate's first, then in the catalogue's order."""
    gate = gate or {}
    names = dict.fromkeys((*METRICS, *gate))
    found = [name for name in names if name in scores.columns and scores[name].notna().any()]
    found.sort(key=lambda name: (name not in gate, METRICS.build(name).bound is None))
    return [measure(name, gate) for name in found]


def measure(name: str, gate: Mapping[str, float] | None = None) -> Measure:
    built = METRICS.build(name)
    return Measure(name, built, (gate or {}).get(name, built.bound))


def clipped(values: pd.Series) -> np.ndarray:
    """The numbers of a column; a perfect copy of an old folder, which is infinite, as the
    ceiling.
    """
    plain = values.dropna().to_numpy(dtype=float)
    found: np.ndarray = np.clip(plain, -CEILING, CEILING)
    return found


def summary(rows: pd.DataFrame, what: Measure) -> Summary | None:
    """The numbers of a group of scores; None when nothing was measured."""
    plain = clipped(rows[what.name]) if what.name in rows else np.empty(0)
    if not plain.size:
        return None
    blind = clipped(rows[what.blind]) if what.blind in rows else np.empty(0)
    over = np.array([what.crosses(value) for value in plain], dtype=float)
    resamples = max(200, min(2000, DRAWS // plain.size))
    low, high = bootstrap(plain, np.median, resamples=resamples)
    share_low, share_high = bootstrap(over, np.mean, resamples=resamples)
    return Summary(
        count=plain.size,
        median=float(np.median(plain)),
        low=low,
        high=high,
        worst=float(plain.max() if what.high else plain.min()),
        blind=float(np.median(blind)) if blind.size else np.nan,
        over=int(over.sum()),
        share=float(over.mean()),
        share_low=share_low,
        share_high=share_high,
    )


def grouped(
    scores: pd.DataFrame, keys: Sequence[str], what: Measure
) -> Iterator[tuple[tuple[Any, ...], Summary]]:
    """A summary for each group, in the order of its keys."""
    present = [key for key in keys if key in scores.columns]
    if scores.empty or not present or what.name not in scores.columns:
        return
    for found, rows in scores.groupby(present, sort=True, dropna=False):
        numbers = summary(rows, what)
        if numbers is not None:
            yield found, numbers
