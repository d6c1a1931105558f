"""Metric: how a guess compares with the truth, and which way is worse."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

Compare = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Metric:
    """`metric(guess, truth)` gives one value a sample, (N,); `leaks` is the way that means leakage."""

    compare: Compare
    leaks: str  # "high" or "low"
    unit: str = ""

    def __call__(self, guess: Tensor, truth: Tensor) -> Tensor:
        return self.compare(guess, truth)


def fixed(compare: Compare, leaks: str, unit: str = "") -> Callable[[], Metric]:
    """A builder of a metric without options."""

    def build() -> Metric:
        return Metric(compare, leaks, unit)

    return build
