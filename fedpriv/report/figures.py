"""Figures: reconstruction grids and PPC curves (SPN fig. 5 and 6)."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from fedpriv.files import write_bytes
from fedpriv.metrics.distances import distances

BORDERS = (float(np.log10(2)), float(np.log10(11)))  # ‖B‖ = ‖E‖ and ‖B‖ = 10·‖E‖
LEAST_SIDE, GAP, MOST = 96, 4, 16  # pixels of a tile, between tiles, tiles in a row


def tile(pixels: Tensor) -> np.ndarray:
    """(C, H, W) in [0, 1] as bytes (h, w, 3), every pixel a square."""
    picture = (pixels.detach().cpu().clamp(0, 1) * 255).round().byte().numpy()
    picture = np.repeat(picture, 3, axis=0) if len(picture) == 1 else picture[:3]
    times = max(1, LEAST_SIDE // max(picture.shape[1:]))
    return picture.transpose(1, 2, 0).repeat(times, axis=0).repeat(times, axis=1)


def grid(rows: Sequence[Tensor]) -> np.ndarray:
    """Rows of pictures (N, C, H, W) below each other on white."""
    bands = []
    for pictures in rows:
        tiles = [tile(picture) for picture in pictures[:MOST]]
        gap = np.full((tiles[0].shape[0], GAP, 3), 255, np.uint8)
        parts = [part for one in tiles for part in (one, gap)]
        bands += [np.concatenate(parts[:-1], axis=1)]
    gap = np.full((GAP, bands[0].shape[1], 3), 255, np.uint8)
    return np.concatenate([part for band in bands for part in (band, gap)][:-1])


def save_grid(path: Path, rows: Sequence[Tensor]) -> None:
    """The pictures as PNG: the first row over the second, and so on."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(grid(rows)).save(stream, "png")
    write_bytes(path, stream.getvalue())


def save_ppc(path: Path, results: pd.DataFrame) -> None:
    """PPC curves as PNG: a column for each defence, a row for each kind of attack (SPN fig. 5).

    `results` has a line for defence, value, attack and batch size: accuracy, m and CAP's distances.
    Accuracy is on the left axis, distances on the right; green is where ‖E‖ > ‖B‖.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    defences, kinds = list(dict.fromkeys(results["defence"])), distances()
    figure, axes = plt.subplots(
        len(kinds), len(defences), figsize=(3.6 * len(defences), 3 * len(kinds)), squeeze=False
    )
    finite = results["m"][np.isfinite(results["m"])]
    right = max(BORDERS[1] * 1.3, float(finite.max()) * 1.05 if len(finite) else 0)
    for row, distance in enumerate(kinds):
        for number, defence in enumerate(defences):
            own = results[results["defence"] == defence]
            _panel(axes[row][number], own, distance.column, right)
            axes[row][number].set_title(f"{defence}: {distance.kind}", fontsize=9)
    axes[0][0].figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)
    write_bytes(path, stream.getvalue())


def _panel(axis: Any, own: pd.DataFrame, column: str, right: float) -> None:
    for left, end, colour in (
        (0, BORDERS[0], "#d5f0d5"),
        (BORDERS[1], right, "#f6d5d5"),
    ):
        axis.axvspan(left, end, color=colour, linewidth=0)
    axis.set_xlim(0, right)
    axis.set_ylim(0, 1)
    axis.set_xlabel("m = log₁₀(‖B‖/‖E‖ + 1)", fontsize=8)
    axis.set_ylabel("accuracy", color="tab:orange", fontsize=8)
    other = axis.twinx()
    other.set_ylabel("distance", color="tab:blue", fontsize=8)
    other.set_ylim(0, max(1.05, float(own[column].max()) * 1.05))
    styles = ("-", "--", ":", "-.")
    for i, ((attack, batch), part) in enumerate(own.groupby(["attack", "batch"], sort=False)):
        part = part.assign(x=part["m"].clip(upper=right)).sort_values("x")
        label = f"{attack}, batch {batch}"
        other.plot(
            part["x"], part[column], styles[i % 4], marker=".", color="tab:blue", label=label
        )
        if i == 0:
            axis.plot(part["x"], part["accuracy"], "-", marker=".", color="tab:orange")
    other.legend(fontsize=6, loc="lower right")
