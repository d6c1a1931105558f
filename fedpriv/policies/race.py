"""Rules that drop a candidate policy early; all candidates are scored on the same images.

Rows are candidates, columns images (S_pri) or rounds (S_acc), so that two candidates differ by
paired values, whose spread is far smaller than that of either.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def stages(total: int, first: int) -> list[int]:
    """`first`, twice that, … up to `total`: what each stage of a race has seen."""
    found = [min(first, total)]
    while found[-1] < total:
        found.append(min(2 * found[-1], total))
    return found


def doubt(values: Tensor, against: Tensor) -> Tensor:
    """(C,): the standard error of mean(values − against).

    `values` are (C, n); `against` is (n,) or a number.
    """
    found: Tensor = (values - against).std(1) / values.shape[1] ** 0.5
    return found


def leaders(values: Tensor, keep: int, doubts: float) -> Tensor:
    """The rows worth more columns when the `keep` lowest means are wanted, best first.

    Half of them at most, fewer if the rest is clearly above the `keep`-th lowest, and never
    fewer than `keep`.
    """
    means = values.mean(1)
    order = means.argsort()
    last = order[min(keep, len(order)) - 1]
    clear = doubts * _at_least_typical(doubt(values, values[last]))
    open_ = order[(means - means[last] <= clear)[order]]
    return order[: max(keep, min(len(open_), -(-len(order) // 2)))]


def may_cross(values: Tensor, cut: float, doubts: float, moves_too: bool = False) -> Tensor:
    """(C,) True for candidates whose mean is not clearly on one side of `cut`.

    A cut made from the candidates' own means moves with the columns as they do (`moves_too`).
    One column tells nothing about its own reliability: then the nearer half is in doubt.
    """
    distance = (values.mean(1) - cut).abs()
    if values.shape[1] == 1:
        return distance <= distance.median()
    spread = doubt(values, values.mean(0) if moves_too else values.new_zeros(()))
    return distance <= doubts * _at_least_typical(spread)


def _at_least_typical(spread: Tensor) -> Tensor:
    """The spreads, none below their median: one seen in few columns may be small by chance."""
    return torch.maximum(spread, spread.median())


def completed(values: Sequence[Sequence[float]]) -> list[float]:
    """What each candidate's mean would be over all columns that any candidate has seen.

    Candidates that left early saw other images or rounds than the rest: they are moved by as much
    as those that stayed differ between what was seen then and all that was seen in the end.
    """
    most = max(map(len, values))
    stayed = torch.tensor([row for row in values if len(row) == most], dtype=torch.float64).mean(0)
    return [
        float(
            torch.tensor(row, dtype=torch.float64).mean()
            + stayed.mean()
            - stayed[: len(row)].mean()
        )
        for row in values
    ]
