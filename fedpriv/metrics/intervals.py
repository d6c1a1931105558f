"""Bootstrap confidence intervals: they show which differences may be chance."""

from collections.abc import Callable, Sequence

import numpy as np

from fedpriv.errors import BadInput
from fedpriv.rng import seed_of

Statistic = Callable[..., np.ndarray]  # takes axis, like np.mean and np.median


def bootstrap(
    values: Sequence[float] | np.ndarray,
    statistic: Statistic = np.mean,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """(low, high) of the percentile interval of a statistic; one value has no width."""
    sample = np.asarray(values, dtype=float)
    if sample.ndim != 1 or not sample.size or np.isnan(sample).any():
        raise BadInput(f"An interval needs one or more numbers, got {values!r}.")
    if not 0 < level < 1 or resamples < 1:
        raise BadInput(f"level must be in (0, 1) and resamples positive; got {level}, {resamples}.")
    draw = np.random.default_rng(seed_of(seed, "bootstrap"))
    picked = sample[draw.integers(0, sample.size, (resamples, sample.size))]
    low, high = np.quantile(statistic(picked, axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
