"""The gallery of a page: original, transformed, reconstruction and error, as data URIs."""

import base64
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.matching import assignment
from fedpriv.report.blocks import Tile
from fedpriv.report.leakage import Measure, measure
from fedpriv.report.reading import Run
from fedpriv.runfolder import RunFolder

Parts = tuple[tuple[str, str], ...]  # a word and a picture each

VICTIM = ("folder", "attack", "round", "node")
LARGEST = 128  # pixels of a side; larger pictures are shown smaller


def tiles(run: Run, what: Measure, most: int, named: bool = False) -> list[Tile]:
    """The `most` worst leaks of a run, worst first; guesses whose truth is gone are left out."""
    if what.name not in run.scores.columns:
        return []
    scores = what.worst_first(run.scores.dropna(subset=[what.name]))
    victims = scores.drop_duplicates([name for name in VICTIM if name in scores])
    pairs = Pairs(run.folder)
    there = victims[[pairs.guesses(row).exists() for _, row in victims.iterrows()]]
    if there.empty:
        return [sheet for _, row in victims.iterrows() for sheet in sheets(run, row, named)][:most]
    found: list[Tile] = []
    for _, row in scores.merge(there[[name for name in VICTIM if name in there]]).iterrows():
        if len(found) >= most:
            break
        parts = pairs.of(row)
        if parts:
            found.append(Tile(caption(run, row, named), parts))
    return found


def sheets(run: Run, row: pd.Series, named: bool) -> Iterator[Tile]:
    """The picture of a victim's samples in a row over their reconstructions, when a run saved just that."""
    path = run.folder.attacks / str(row["attack"]) / f"{row['round']}-{row['node']}.png"
    if path.exists():
        words = "samples over their reconstructions"
        yield Tile("at worst " + caption(run, row, named), ((words, file_uri(path)),))


class Pairs:
    """Guesses beside the samples they stand for, read from the run folder once per victim."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._read: dict[Path, dict[int, Parts]] = {}

    def of(self, row: pd.Series) -> Parts:
        """Words and data URIs for one row of the scores; nothing when there is no picture."""
        path = self.guesses(row)
        if path not in self._read:
            truth = RunFolder(path.parents[2]).truth / path.name
            self._read[path] = dict(self._victim(path, truth))
        return self._read[path].get(int(row.get("sample", -1)), ())

    def guesses(self, row: pd.Series) -> Path:
        """The file of a row's victim."""
        place = RunFolder(self.folder.path / str(row.get("folder", "")))
        return place.attacks / str(row["attack"]) / f"{row['round']}-{row['node']}.npz"

    def _victim(self, guesses: Path, original: Path) -> Iterator[tuple[int, Parts]]:
        if not guesses.exists() or not original.exists():
            return
        found, truth = Reconstruction.load(guesses), Truth.load(original)
        guess, real, trained = (
            replace(found, x=x).pixels[0] for x in (found.x, truth.x[None], truth.trained[None])
        )
        if guess.dim() != 4 or guess.shape[1:] != real.shape[1:]:
            return
        for g, t in zip(*(side.tolist() for side in assignment(guess, real)), strict=True):
            pictures = [("original", real[t])]
            if not trained[t].equal(real[t]):
                pictures.append(("as trained on", trained[t]))
            pictures.append(("reconstruction", guess[g]))
            pictures.append(("error", (real[t] - guess[g]).abs().mean(dim=0)))
            uris = tuple((word, picture_uri(pixels.numpy())) for word, pixels in pictures)
            yield int(truth.indices[t]), uris


def caption(run: Run, row: pd.Series, named: bool) -> str:
    """`PSNR 31.2 dB · SSIM 0.91 · client 3, round 1 · dlg`."""
    figures = " · ".join(
        f"{what.word} {what.shown(float(row[what.name]))}" for what in map(measure, _metrics(row))
    )
    where = f"client {row['node']}, round {row['round']}"
    if "batch" in row:
        where += f", batch {row['batch']}"
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
