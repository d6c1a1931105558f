"""Metric: how a guess compares with the truth, of which claim, and which way is worse."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Compare = Callable[[Tensor, Tensor], Tensor]


def anything(truth: Tensor) -> bool:
    return True


def pictures(truth: Tensor) -> bool:
    """Whether these are pictures (N, C, H, W) of at least 3×3 pixels."""
    return truth.dim() == 4 and min(truth.shape[2:]) >= 3


@dataclass(frozen=True)
class Metric:
    """How near a guess comes to the truth: `metric(guess, truth)` gives one value a sample, (N,).

    Args:
        compare: The function behind it, from guess and truth (N, …) to values (N,).
        leaks: The side that means leakage: "high" or "low" values.
        unit: What stands behind a value, such as "dB".
        of: What of a claim is compared. "sample" are pictures in [0, 1] or rows of other data,
            "trained" the same against what the client trained on, "input" what the model sees;
            others are "labels", "owner", "attribute", "features" (see Claim.views).
        said: How people write the name. Default: the name itself.
        bound: The worst value that is allowed where nobody sets a gate; None for no bound.
        margin: For values of 0 or 1: by how much of all samples an attacker may be right more often
            than a blind guess, where nobody sets a gate; None for metrics that are no such hits.
        fits: Whether it can compare truths of this shape.
        cap: The kind of attack whose distance CAP takes from this metric (SPN eq. 1), such as
            "reconstruction"; empty for none.

    Example:
        >>> import torch
        >>> from fedpriv import Metric
        >>> exact = Metric(lambda guess, truth: (guess == truth).float(), "high", of="labels")
        >>> exact(torch.tensor([3, 1]), torch.tensor([3, 2])).tolist()
        [1.0, 0.0]
    """

    compare: Compare
    leaks: Literal["high", "low"]
    unit: str = ""
    of: str = "sample"
    said: str = ""
    bound: float | None = None
    margin: float | None = None
    fits: Callable[[Tensor], bool] = anything
    cap: str = ""

    def __call__(self, guess: Tensor, truth: Tensor) -> Tensor:
        return self.compare(guess, truth)

    @property
    def decides(self) -> bool:
        """Whether it has a bound of its own, so that a verdict can rest on it without a gate."""
        return self.bound is not None or self.margin is not None

    def shown(self, value: float | None) -> str:
        """A value with its unit, as people read it."""
        if value is None or math.isnan(value):
            return "–"
        return f"{value:.1f} {self.unit}" if self.unit else f"{value:.3f}"


def fixed(metric: Metric) -> Callable[[], Metric]:
    """A builder of a metric without options."""
    return lambda: metric
