"""Privacy against accuracy: PPC points and regions, CAP, Pareto front.

SPN def. 1 and eq. 1, RAN fig. 3.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedpriv.errors import BadInput

Region = Literal["green", "white", "red"]


def ppc(clean: float, added: float) -> float:
    """m = log₁₀(‖B_I‖ / ‖E_B‖ + 1) from the norms of the clean and the added gradient (SPN fig. 5).

    0 is pure perturbation; nothing added is infinite.
    """
    if clean < 0 or added < 0 or math.isnan(clean) or math.isnan(added):
        raise BadInput(f"Norms cannot be negative or NaN; got {clean} and {added}.")
    if added == 0:
        return math.inf
    return math.log10(clean / added + 1)


def region(m: float) -> Region:
    """The colour of SPN fig. 5 at m.

    Green: ‖E_B‖ > ‖B_I‖, where reconstruction must fail (SPN theorem 2.2). Red: the ratio is
    in the tens or above, where pixels are disclosed. White: between the two.
    """
    ratio = 10**m - 1 if m < 300 else math.inf
    if ratio < 1:
        return "green"
    return "red" if ratio >= 10 else "white"


def cap(accuracies: Sequence[float], distances: Sequence[float]) -> float:
    """Calibrated averaged performance: the mean of accuracy × distance over settings. SPN eq. 1."""
    if len(accuracies) != len(distances) or not len(accuracies):
        raise BadInput(
            f"CAP needs an accuracy and a distance for each setting; got {len(accuracies)} "
            f"and {len(distances)}."
        )
    return math.fsum(a * d for a, d in zip(accuracies, distances, strict=True)) / len(accuracies)


def cap_between(
    low: float,
    high: float,
    m: Sequence[float],
    accuracies: Sequence[float],
    distances: Sequence[float],
) -> float:
    """The mean of accuracy × distance for m from `low` to `high`, linear between settings.

    Mechanisms that cover that range are compared at equal perturbation, whichever values were
    tried.
    """
    points = np.array(sorted(zip(m, np.multiply(accuracies, distances), strict=True)))
    known = points[np.isfinite(points[:, 0])]
    if not len(known) or not known[0, 0] <= low < high <= known[-1, 0]:
        raise BadInput(f"The settings do not cover m from {low} to {high}.")
    inside = known[(known[:, 0] > low) & (known[:, 0] < high), 0]
    grid = np.concatenate([[low], inside, [high]])
    area = np.trapezoid(np.interp(grid, known[:, 0], known[:, 1]), grid)
    return float(area / (high - low))


def pareto(points: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the points no other is at least as good as in all and better in one (RAN fig. 3).

    Higher is better in every coordinate; equal points all stay. In the order of the first one.
    """

    def beaten(point: Sequence[float]) -> bool:
        return any(
            all(b >= a for a, b in zip(point, other, strict=True)) and tuple(other) != tuple(point)
            for other in points
        )

    front = [i for i, point in enumerate(points) if not beaten(point)]
    return sorted(front, key=lambda i: tuple(points[i]))
