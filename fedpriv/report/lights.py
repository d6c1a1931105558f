"""Red, green or grey: what scores say against a bound, and how several lights make one."""

from collections.abc import Iterable
from typing import Literal

import pandas as pd

from fedpriv.metrics.rates import SHARE, at_most
from fedpriv.report.leakage import Measure, summary

Light = Literal["red", "green", "grey"]
WORDS: dict[Light, str] = {"red": "Leaks", "green": "Holds", "grey": "Undecided"}
OUTCOMES: dict[str, Light] = {"leaks": "red", "holds": "green", "undecided": "grey"}
WORST_FIRST: tuple[Light, ...] = ("red", "grey", "green")


def light_of(scores: pd.DataFrame, what: Measure | None) -> Light:
    """Red when a victim is worse than the bound; green when enough were tested and none is.

    Enough says that at most a tenth of all clients can have one, with 95 % confidence: 29 clients
    without a hit, or 29 samples where codes are seen. Fewer, none at all, or attacks that were cut
    short decide nothing.
    """
    numbers = summary(scores, what) if what is not None else None
    if what is None or numbers is None or what.bound is None:
        return "grey"
    if numbers.over:
        return "red"
    return "grey" if cut_short(scores) or too_few(numbers.units) else "green"


def too_few(units: int) -> bool:
    """Whether so many clients or samples without a hit leave more than a tenth of all open."""
    return not units or at_most(0, units) > SHARE


def worst_of(lights: Iterable[Light]) -> Light:
    """The light of several gates: a leak first, then what is undecided."""
    return min(lights, key=WORST_FIRST.index, default="grey")


def cut_short(scores: pd.DataFrame) -> bool:
    """Whether an attack was told to stop before it had finished."""
    return "partial" in scores and bool(scores["partial"].astype(str).eq("True").any())
