"""How much leaked: which way a metric is bad, the worst victim, medians with bootstrap intervals."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedpriv.catalogue import METRICS
from fedpriv.metrics.intervals import bootstrap

# What a person can recognise, where the scenario sets no gate of its own.
DEFAULT_BOUNDS = {"psnr": 20.0, "ssim": 0.5}
SPELLED = {"psnr": "PSNR", "ssim": "SSIM", "rmse": "rMSE", "mse": "MSE"}
# A perfect copy has an infinite PSNR; axes and means need a number.
CEILING = 60.0
DRAWS = 200_000  # of one interval: many victims need fewer resamples


@dataclass(frozen=True)
class Measure:
    """A metric of a report: its name, which way is worse, and the worst that is allowed."""

    name: str
    high: bool = True  # whether a high value means leakage
    unit: str = ""
    bound: float | None = None

    @property
    def word(self) -> str:
        """Its name as people write it."""
        return SPELLED.get(self.name, self.name)

    def shown(self, value: float | None) -> str:
        if value is None or math.isnan(value):
            return "–"
        unit = f" {self.unit}" if self.unit else ""
        return f"{value:.1f}{unit}" if self.unit == "dB" else f"{value:.3f}{unit}"

    def crosses(self, value: float) -> bool:
        """Whether a value is worse than the bound allows."""
        if self.bound is None:
            return False
        return value > self.bound if self.high else value < self.bound

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
    """A group of victims in numbers: median with its interval, the worst, the share over the bound."""

    count: int
    median: float
    low: float
    high: float
    worst: float
    over: int
    share: float
    share_low: float
    share_high: float


def measures(scores: pd.DataFrame, gate: Mapping[str, float] | None = None) -> list[Measure]:
    """The metrics that the scores hold, the gate's first, then in the catalogue's order."""
    gate = gate or {}
    found = [name for name in METRICS if name in scores.columns and scores[name].notna().any()]
    found.sort(key=lambda name: name not in gate)
    return [measure(name, gate) for name in found]


def measure(name: str, gate: Mapping[str, float] | None = None) -> Measure:
    built = METRICS.build(name)
    bound = (gate or {}).get(name, DEFAULT_BOUNDS.get(name))
    return Measure(name, built.leaks == "high", built.unit, bound)


def clipped(values: pd.Series) -> np.ndarray:
    """The numbers of a column, an infinite one as the ceiling."""
    plain = values.dropna().to_numpy(dtype=float)
    return np.clip(plain, -CEILING, CEILING)


def summary(values: pd.Series, what: Measure) -> Summary | None:
    """The numbers of a group; None when nothing was measured."""
    plain = clipped(values)
    if not plain.size:
        return None
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
        over=int(over.sum()),
        share=float(over.mean()),
        share_low=share_low,
        share_high=share_high,
    )


def grouped(
    scores: pd.DataFrame, keys: Sequence[str], what: Measure
) -> Iterator[tuple[tuple, Summary]]:
    """A summary for each group, in the order of its keys."""
    present = [key for key in keys if key in scores.columns]
    if scores.empty or not present or what.name not in scores.columns:
        return
    for found, rows in scores.groupby(present, sort=True, dropna=False):
        numbers = summary(rows[what.name], what)
        if numbers is not None:
            yield found, numbers
