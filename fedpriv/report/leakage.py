"""How much leaked: the worst victim, medians with bootstrap intervals, shares with exact ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedpriv.catalogue import METRICS
from fedpriv.metrics.gates import Gate
from fedpriv.metrics.images import CEILING
from fedpriv.metrics.intervals import bootstrap
from fedpriv.metrics.metric import Metric
from fedpriv.metrics.rates import exact_interval

VICTIM = ("run", "node", "victim")  # the columns that tell victims apart
CLIENT = VICTIM[:-1]
DRAWS = 200_000  # of one interval: many victims need fewer resamples


@dataclass(frozen=True)
class Measure:
    """A metric of a report: its name, which way is worse, and the worst that is allowed.

    `above` is the bad side that a gate names; without a gate the metric says it.
    """

    name: str
    metric: Metric
    bound: float | None = None
    above: bool | None = None

    @property
    def word(self) -> str:
        """Its name as people write it."""
        return self.metric.said or self.name

    @property
    def high(self) -> bool:
        """Whether a high value is the bad one."""
        return self.metric.leaks == "high" if self.above is None else self.above

    @property
    def unit(self) -> str:
        return self.metric.unit

    @property
    def blind(self) -> str:
        """The column that holds the blind guess's values."""
        return f"{self.name}-blind"

    def measured(self, scores: pd.DataFrame) -> bool:
        return self.name in scores.columns and bool(scores[self.name].notna().any())

    def shown(self, value: float | None) -> str:
        return self.metric.shown(value)

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
    """A group of scores in numbers: median, interval, the worst, the share over the bound.

    `count` are scores. `over` of `victims` are samples, each counted once by its worst score.
    Samples behind one update may leak together: the exact interval is that of `units`, which are
    clients where updates are seen and samples where codes are.
    """

    count: int
    median: float
    low: float
    high: float
    worst: float
    blind: float  # the median of the blind guess; nan when there is none
    victims: int
    over: int
    share: float
    share_low: float
    share_high: float
    units: int
    unit: str


def measures(scores: pd.DataFrame, gates: Sequence[Gate] = ()) -> list[Measure]:
    """The metrics that the scores hold: those of gates, then others, those with a bound first."""
    known = {gate.metric for gate in gates}
    others = [measure(name) for name in METRICS if name not in known]
    others.sort(key=lambda what: what.bound is None)
    return [what for what in (*map(gated, gates), *others) if what.measured(scores)]


def deciding(scores: pd.DataFrame, gates: Sequence[Gate] = ()) -> list[Measure]:
    """What the verdict rests on: every gate, or else the first metric that was measured."""
    return list(map(gated, gates)) if gates else measures(scores)[:1]


def measure(name: str) -> Measure:
    built = METRICS.build(name)
    return Measure(name, built, built.bound)


def gated(gate: Gate) -> Measure:
    return Measure(gate.metric, METRICS.build(gate.metric), gate.bound, gate.above)


def clipped(values: pd.Series) -> np.ndarray:
    """The numbers of a column. Old folders give a perfect copy infinity: it is the ceiling here."""
    plain = values.dropna().to_numpy(dtype=float)
    found: np.ndarray = np.clip(plain, -CEILING, CEILING)
    return found


def summary(rows: pd.DataFrame, what: Measure) -> Summary | None:
    """The numbers of a group of scores; None when nothing was measured."""
    plain = clipped(rows[what.name]) if what.name in rows else np.empty(0)
    if not plain.size:
        return None
    blind = clipped(rows[what.blind]) if what.blind in rows else np.empty(0)
    worst = worst_by_victim(rows, what)
    over = sum(what.crosses(value) for value in worst)
    resamples = max(200, min(2000, DRAWS // plain.size))
    low, high = bootstrap(plain, np.median, resamples=resamples)
    alone = "by" in rows and bool(rows["by"].eq("curious party").all())
    groups = worst if alone or "node" not in rows else worst_by_victim(rows, what, CLIENT)
    share_low, share_high = exact_interval(sum(map(what.crosses, groups)), len(groups))
    return Summary(
        count=plain.size,
        median=float(np.median(plain)),
        low=low,
        high=high,
        worst=float(plain.max() if what.high else plain.min()),
        blind=float(np.median(blind)) if blind.size else np.nan,
        victims=len(worst),
        over=over,
        share=over / len(worst),
        share_low=share_low,
        share_high=share_high,
        units=len(groups),
        unit="sample" if groups is worst else "client",
    )


def worst_by_victim(rows: pd.DataFrame, what: Measure, by: Sequence[str] = VICTIM) -> np.ndarray:
    """The worst value of every victim: one sample of one client of one run."""
    measured = rows[rows[what.name].notna()]
    keys = [key for key in by if key in measured.columns]
    if "victim" not in measured.columns:  # of an old folder: every score counts
        return clipped(measured[what.name])
    groups = measured.groupby(keys, dropna=False)[what.name]
    return clipped(groups.max() if what.high else groups.min())


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
