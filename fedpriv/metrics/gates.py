"""Gates: the worst value of a metric that one sample may have, as people type it (`psnr>20`)."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadOption
from fedpriv.tables import Row

PATTERN = re.compile(r"\s*([A-Za-z][\w.:-]*)\s*([<>])\s*([-+0-9.eE]+|nan|inf)\s*")


@dataclass(frozen=True)
class Gate:
    """`psnr>20`: crossed when any victim's value lies beyond the bound."""

    metric: str
    above: bool  # whether above the bound is the bad side
    bound: float

    def __post_init__(self) -> None:
        METRICS[self.metric]  # an unknown name is refused with the nearest known one
        if not math.isfinite(self.bound):
            raise BadOption(f"The gate '{self}' needs a finite number, got {self.bound}.")

    def __str__(self) -> str:
        short = f"{self.bound:g}"
        bound = short if float(short) == self.bound else repr(self.bound)
        return f"{self.metric}{'>' if self.above else '<'}{bound}"

    def crossed(self, value: float) -> bool:
        return value > self.bound if self.above else value < self.bound

    def worst(self, rows: Iterable[Row]) -> Row | None:
        """The row that is worst by this gate; None when no row has the metric."""
        side = max if self.above else min
        return side(self.measured(rows), key=lambda row: float(row[self.metric]), default=None)

    def measured(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that have a number for the metric; NaN is none."""
        known = [row for row in rows if row.get(self.metric) not in (None, "")]
        return [row for row in known if not math.isnan(float(row[self.metric]))]


def parsed(text: str) -> Gate:
    """A gate as people type it."""
    match = PATTERN.fullmatch(text)
    try:
        metric, side, bound = match.groups() if match else ("", "", "")
        return Gate(metric, side == ">", float(bound))
    except ValueError:
        raise BadOption(
            f"A gate reads like 'psnr>20' or 'relative-error<0.3', got '{text}'."
        ) from None


def gates_of(bounds: Mapping[str, float], texts: Iterable[str] = ()) -> list[Gate]:
    """The gates of a scenario's [gate] and of --fail-if; METRICS say which side is leakage."""
    own = [Gate(name, METRICS.build(name).leaks == "high", value) for name, value in bounds.items()]
    return own + [parsed(text) for text in texts]
