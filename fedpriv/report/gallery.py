"""The gallery of a page: original, transformed, reconstruction and error, as data URIs."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from fedpriv.report.leakage import Measure, measure
from fedpriv.report.parts import Tile
from fedpriv.report.reading import Run

LARGEST = 128  # pixels of a side; larger pictures are shown smaller


def tiles(run: Run, what: Measure, most: int, named: bool = False) -> list[Tile]:
    """The `most` worst leaks of a run, worst first."""
    if what.name not in run.scores.columns:
        return []
    found: list[Tile] = []
    shown: set[Path] = set()
    for _, row in what.worst_first(run.scores.dropna(subset=[what.name])).iterrows():
        if len(found) >= most:
            break
        stem = run.folder.attacks / str(row["attack"]) / f"{row['round']}-{row['node']}"
        picture = stem.with_name(stem.name + ".png")
        if picture in shown or not picture.exists():
            continue
        shown.add(picture)
        found.append(Tile(caption(run, row, named), whole=file_uri(picture)))
    return found


def caption(run: Run, row: pd.Series, named: bool) -> str:
    """`PSNR 31.2 dB · SSIM 0.91 · client 3, round 1 · dlg`."""
    figures = " · ".join(
        f"{name.upper()} {measure(name).shown(float(row[name]))}" for name in _metrics(row)
    )
    where = f"client {row['node']}, round {row['round']}"
    return " · ".join([figures, where, str(row["attack"]), *([run.name] if named else [])])


def _metrics(row: pd.Series) -> Iterator[str]:
    for name in ("psnr", "ssim", "rmse", "mse"):
        if name in row and pd.notna(row[name]):
            yield name
            if name == "ssim":
                return


def file_uri(path: Path) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


def picture_uri(pixels: np.ndarray) -> str:
    """(C, H, W) or (H, W) in [0, 1] as a data URI."""
    plain = np.clip(np.nan_to_num(np.asarray(pixels, dtype=np.float64)), 0, 1)
    if plain.ndim == 3:
        plain = plain[0] if plain.shape[0] == 1 else np.moveaxis(plain[:3], 0, -1)
    image = Image.fromarray((plain * 255).round().astype(np.uint8))
    image.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def error_map(original: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """|original − guess| as one channel, the mean over colours; black is an exact copy."""
    difference = np.abs(np.asarray(original, float) - np.asarray(guess, float))
    return difference.mean(axis=0) if difference.ndim == 3 else difference
