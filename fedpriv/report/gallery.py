"""The gallery of a page: original, transformed, reconstruction and error, as data URIs."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from fedpriv.catalogue import METRICS
from fedpriv.evidence.claims import Reconstruction, load_claim
from fedpriv.report.blocks import Tile
from fedpriv.report.leakage import Measure, measure
from fedpriv.runfolder import RunFolder

Parts = tuple[tuple[str, str], ...]  # a word and a picture each

VICTIM = ("folder", "attack", "round", "node")
LARGEST = 128  # pixels of a side; larger pictures are shown smaller


def tiles(
    folder: RunFolder, scores: pd.DataFrame, what: Measure, most: int, name: str = ""
) -> list[Tile]:
    """The `most` worst leaks, worst first; guesses whose truth is gone are left out.

    `name` is the run's, where a page shows several.
    """
    if what.name not in scores.columns:
        return []
    scores = what.worst_first(scores.dropna(subset=[what.name]))
    victims = scores.drop_duplicates([key for key in VICTIM if key in scores])
    pairs = Pairs(folder)
    there = victims[[pairs.guesses(row).exists() for _, row in victims.iterrows()]]
    if there.empty:
        shown = [tile for _, row in victims.iterrows() for tile in sheets(folder, row, name)]
        return shown[:most]
    found: list[Tile] = []
    for _, row in scores.merge(there[[key for key in VICTIM if key in there]]).iterrows():
        if len(found) >= most:
            break
        parts = pairs.of(row)
        if parts:
            found.append(Tile(caption(row, name), parts))
    return found


def sheets(folder: RunFolder, row: pd.Series, name: str) -> Iterator[Tile]:
    """A victim's samples in a row over their reconstructions, when only that picture was kept."""
    path = folder.picture_file(str(row["attack"]), f"{row['round']}-{row['node']}")
    if path.exists():
        words = "samples over their reconstructions"
        yield Tile("at worst " + caption(row, name), ((words, file_uri(path)),))


class Pairs:
    """Guesses beside the samples they stand for, read from the run folder once per victim."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._read: dict[Path, dict[int, Parts]] = {}

    def of(self, row: pd.Series) -> Parts:
        """Words and data URIs for one row of the scores; nothing when there is no picture."""
        path = self.guesses(row)
        if path not in self._read:
            self._read[path] = dict(self._victim(path, self.place(row)))
        return self._read[path].get(int(row.get("victim", -1)), ())

    def place(self, row: pd.Series) -> RunFolder:
        """The folder of a row's victim: a cell of a sweep or an audit has its own."""
        below = row.get("folder")
        return self.folder.below(str(below)) if isinstance(below, str) and below else self.folder

    def guesses(self, row: pd.Series) -> Path:
        """The file of a row's claim."""
        return self.place(row).claim_file(str(row["attack"]), f"{row['round']}-{row['node']}")

    def _victim(self, guesses: Path, folder: RunFolder) -> Iterator[tuple[int, Parts]]:
        truth = folder.truth_of(guesses.stem)
        if not guesses.exists() or truth is None:
            return
        found = load_claim(guesses)
        if not isinstance(found, Reconstruction) or found.x.shape[2:] != truth.x.shape[1:]:
            return
        if found.x.dim() != 5:
            return
        guess, real, trained = found.pixels[0], *map(found.as_pixels, (truth.x, truth.trained))
        for g, t in zip(*(side.tolist() for side in found.pairs(truth)), strict=True):
            pictures = [("original", real[t])]
            if not trained[t].equal(real[t]):
                pictures.append(("as trained on", trained[t]))
            pictures.append(("reconstruction", guess[g]))
            pictures.append(("error", (real[t] - guess[g]).abs().mean(dim=0)))
            uris = tuple((word, picture_uri(pixels.numpy())) for word, pixels in pictures)
            yield int(truth.indices[t]), uris


def caption(row: pd.Series, name: str) -> str:
    """`PSNR 31.2 dB · SSIM 0.91 · client 3, round 1 · dlg`."""
    figures = " · ".join(
        f"{what.word} {what.shown(float(row[what.name]))}" for what in _measured(row)
    )
    where = f"client {row['node']}, round {row['round']}"
    if "batch" in row and pd.notna(row["batch"]):
        where += f", batch {row['batch']}"
    setting = f"{row['defence']} {row['value']}" if "defence" in row else ""
    setting = setting.replace(" nan", "")
    return " · ".join(part for part in (figures, where, str(row["attack"]), setting, name) if part)


def _measured(row: pd.Series) -> list[Measure]:
    """The metrics of samples that a caption names: those with a bound, else the first one."""
    found = [
        measure(name)
        for name in METRICS
        if name in row and pd.notna(row[name]) and METRICS.build(name).of == "sample"
    ]
    return [what for what in found if what.bound is not None] or found[:1]


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
