"""Where a data set's file comes from: an explicit root, the folder FEDPRIV_DATA, or the hub."""

import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedpriv.errors import BadData

VARIABLE = "FEDPRIV_DATA"


@dataclass(frozen=True)
class Source:
    """The file names a data set may have, the best first, and its name on the hub if it has one."""

    name: str
    files: tuple[str, ...]
    hub: str = ""
    subset: str | None = None

    def file(self, root: str | None) -> Path | None:
        """The file in `root`, or in FEDPRIV_DATA if no root is given; None leaves the hub."""
        folder = root or os.environ.get(VARIABLE)
        found = [Path(folder) / name for name in self.files] if folder else []
        for path in found:
            if path.is_file():
                return path
        if root:
            raise self.missing(f"root {root} has none of these files")
        return None

    def missing(self, reason: str) -> BadData:
        """One error that names every way to provide the data."""
        names = " or ".join(self.files)
        folder = os.environ.get(VARIABLE)
        hub = (
            f"reach the hub, where it is '{self.hub}'"
            if self.hub
            else "name a hub copy with the option hub, since no default one is known"
        )
        return BadData(
            f"Data set '{self.name}' is not there ({reason}). Do one of these: "
            f"(1) set root to a folder with {names}; "
            f"(2) set the environment variable {VARIABLE} to such a folder (now "
            f"{folder or 'unset'}); "
            f"(3) {hub}. 'mnist-5k' and 'synthetic' need none of this."
        )


def arrays(path: Path, keys: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays called `keys` of an npz file; no pickle is read."""
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no zip archive")
        with np.load(path, allow_pickle=False) as stored:
            absent = [key for key in keys if key not in stored.files]
            if absent:
                raise BadData(
                    f"{path} lacks {', '.join(absent)}; it must hold {', '.join(keys)}, "
                    f"and holds {', '.join(stored.files)}."
                )
            return {key: stored[key] for key in keys}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise BadData(f"{path} is damaged or no npz file: {error}. Fetch it again.") from error
