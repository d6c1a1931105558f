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
STYLES = ("-", "--", ":", "-.")  # of batch sizes; attacks differ by colour


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

    `results` has a line for defence, value, attack, batch size and seed: accuracy, m and CAP's
    distances. Accuracy is on the left axis, distances on the right; green is where ‖E‖ > ‖B‖.
    An attack has one colour everywhere. A band is the spread over seeds.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    defences, kinds = list(dict.fromkeys(results["defence"])), distances()
    attacks = list(dict.fromkeys(results["attack"]))
    figure, axes = plt.subplots(
        len(kinds), len(defences), figsize=(3.6 * len(defences), 3 * len(kinds)), squeeze=False
    )
    finite = results["m"][np.isfinite(results["m"])]
    right = max(BORDERS[1] * 1.3, float(finite.max()) * 1.05 if len(finite) else 0)
    for row, distance in enumerate(kinds):
        for number, defence in enumerate(defences):
            own = results[results["defence"] == defence]
            _panel(axes[row][number], own, distance.column, right, attacks)
            axes[row][number].set_title(f"{defence}: {distance.said}", fontsize=9)
    axes[0][0].figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    plt.close(figure)
    write_bytes(path, stream.getvalue())


def _panel(axis: Any, own: pd.DataFrame, column: str, right: float, attacks: Sequence[str]) -> None:
    for left, end, colour in (
        (0, BORDERS[0], "#d5f0d5"),
        (BORDERS[1], right, "#f6d5d5"),
    ):
        axis.axvspan(left, end, color=colour, linewidth=0)
    axis.set_xlim(0, right)
    axis.set_ylim(0, 1)
    axis.set_xlabel("m = log₁₀(‖B‖/‖E‖ + 1)", fontsize=8)
    axis.set_ylabel("accuracy (grey)", fontsize=8)
    other = axis.twinx()
    other.set_ylabel("distance", fontsize=8)
    other.set_ylim(0, max(1.05, float(own[column].max()) * 1.05))
    own = own.assign(x=own["m"].clip(upper=right))
    batches = list(dict.fromkeys(own["batch"]))
    for (attack, batch), part in own.groupby(["attack", "batch"], sort=False):
        colour, style = f"C{attacks.index(attack)}", STYLES[batches.index(batch) % len(STYLES)]
        _curve(other, part, column, colour, style, f"{attack}, batch {batch}")
    first = own[(own["attack"] == own["attack"].iloc[0]) & (own["batch"] == batches[0])]
    _curve(axis, first, "accuracy", "0.35", "-", "accuracy")
    other.legend(fontsize=6, loc="best", handlelength=3.5)


def _curve(axis: Any, part: pd.DataFrame, column: str, colour: str, style: str, name: str) -> None:
    """The mean over seeds for each value of the defence, with a band from the least to the most."""
    seeds = part.groupby("value", sort=False, dropna=False)
    curve = pd.DataFrame(
        {
            "x": seeds["x"].mean(),
            "mean": seeds[column].mean(),
            "least": seeds[column].min(),
            "most": seeds[column].max(),
        }
    ).sort_values("x")
    axis.plot(curve["x"], curve["mean"], style, marker=".", color=colour, label=name)
    axis.fill_between(curve["x"], curve["least"], curve["most"], color=colour, alpha=0.2, lw=0)
