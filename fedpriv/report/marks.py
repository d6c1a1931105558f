"""What sections of a page share: a value's colour, who knows a defence, the Pareto front."""

import math

import pandas as pd

from fedpriv.metrics.tradeoff import pareto
from fedpriv.report.blocks import Cell
from fedpriv.report.leakage import Measure


def marked(value: float, what: Measure) -> Cell:
    """A value in the colour of what it means against the bound."""
    if what.bound is None or math.isnan(value):
        return Cell(what.shown(value))
    mark = "bad" if what.crosses(value) else "near" if what.near(value) else "good"
    return Cell(what.shown(value), mark)


def knows(value: object) -> str:
    """The words for a `knows` cell of a table: a plugin's name, or nothing."""
    return f"knows {value}" if value else "does not know it"


def with_front(points: pd.DataFrame, what: Measure) -> pd.DataFrame:
    """The points with `front`: no other point has more accuracy and leaks less."""
    sign = -1 if what.high else 1
    pairs = [(a, sign * b) for a, b in zip(points["accuracy"], points["leak"], strict=True)]
    front = set(pareto(pairs))
    return points.assign(front=[index in front for index in range(len(points))])
