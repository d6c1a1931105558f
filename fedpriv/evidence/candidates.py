"""Candidates: samples that an attacker suspects, and the judge's key to them, in two files."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadInput
from fedpriv.files import whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """What an attacker asks about: was this sample in that client's training set?

    Args:
        x: (M, …), the samples as the model takes them (normalised).
        y: (M,), their labels.
        suspect: (M,), the client whose training set each of them may have been in.

    Example:
        >>> import torch
        >>> from fedpriv import Candidates
        >>> x, y, suspect = torch.rand(2, 4), torch.tensor([0, 1]), torch.tensor([3, 3])
        >>> len(Candidates(x=x, y=y, suspect=suspect))
        2
    """

    x: Tensor
    y: Tensor
    suspect: Tensor

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.suspect):
            raise BadInput(
                f"Candidates need a label and a suspect each; got {len(self.x)} samples, "
                f"{len(self.y)} labels and {len(self.suspect)} suspects."
            )

    def __len__(self) -> int:
        return len(self.x)

    def save(self, path: Path) -> Path:
        return _write(path, {"x": self.x, "y": self.y, "suspect": self.suspect})

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote. A file without `suspect` asks about the first client."""
        found = _read(Path(path), ("x", "y"))
        suspect = found.get("suspect", torch.zeros(len(found["y"]), dtype=torch.long))
        return cls(x=found["x"].float(), y=found["y"].long(), suspect=suspect.long())


@dataclass(frozen=True, kw_only=True, eq=False)
class Key:
    """What the judge alone knows of the candidates.

    Args:
        numbers: (M,), numbers in the data set; test sample i is −1 − i.
        owner: (M,), the client that trained on each of them; −1 for nobody.
    """

    numbers: Tensor
    owner: Tensor

    @property
    def member(self) -> Tensor:
        """(M,) whether somebody trained on it."""
        return self.owner >= 0

    def save(self, path: Path) -> Path:
        return _write(path, {"numbers": self.numbers, "owner": self.owner}, mode=0o600)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        found = _read(Path(path), ("numbers", "owner"))
        return cls(numbers=found["numbers"].long(), owner=found["owner"].long())


def _write(path: Path, tensors: dict[str, Tensor], mode: int = 0o644) -> Path:
    arrays: dict[str, Any] = {name: value.cpu().numpy() for name, value in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path, mode=mode) as beside, beside.open("wb") as file:
        np.savez(file, **arrays)
    return path


def _read(path: Path, needed: tuple[str, ...]) -> dict[str, Tensor]:
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: torch.from_numpy(file[name]) for name in file.files}
        if lacking := [name for name in needed if name not in found]:
            raise ValueError(f"it has no {lacking[0]}")
        return found
    except (OSError, EOFError, ValueError, TypeError, BadZipFile, zlib.error) as error:
        raise BadInput(f"'{path}' holds no candidates: {error}.") from error
