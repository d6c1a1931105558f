"""Reconstruction: all that an attack returns."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadInput


@dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """Guesses for V victims with B samples each.

    `x` (V, B, …) lies in the model's input space (normalised), `labels` (V, B) are class indices,
    `loss` (V,) is what the attack minimised, so that guesses can be ranked without the truth.
    `names` are the victims' observations, `extra` holds what the attack found besides (plain numbers
    and texts), `mean` and `std` undo the normalisation.
    """

    x: Tensor
    labels: Tensor
    loss: Tensor
    seconds: float = 0.0
    names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pixels(self) -> Tensor:
        """`x` without the normalisation, clamped to [0, 1]."""
        if not self.mean:
            return self.x.clamp(0, 1)
        shape = (len(self.mean),) + (1,) * (self.x.ndim - 3)
        mean, std = (torch.tensor(values).view(shape) for values in (self.mean, self.std))
        return (self.x * std + mean).clamp(0, 1)

    def of(self, victim: int) -> Self:
        """The part of one victim, its leading axis kept."""
        one = slice(victim, victim + 1)
        return type(self)(
            x=self.x[one],
            labels=self.labels[one],
            loss=self.loss[one],
            seconds=self.seconds / max(1, len(self.x)),
            names=self.names[one],
            mean=self.mean,
            std=self.std,
            extra=self.extra,
        )

    def save(self, path: Path | str) -> Path:
        """Write an npz that needs no pickle."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {
            "seconds": self.seconds,
            "names": self.names,
            "mean": self.mean,
            "std": self.std,
            "extra": dict(self.extra),
        }
        part = path.with_name(f".{path.name}.{os.getpid()}.npz")
        np.savez_compressed(
            part,
            x=self.x.numpy(),
            labels=self.labels.numpy(),
            loss=self.loss.numpy(),
            facts=np.array(json.dumps(facts)),
        )
        part.replace(path)
        return path

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                x, labels, loss = (torch.from_numpy(file[key]) for key in ("x", "labels", "loss"))
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise BadInput(f"'{path}' is no reconstruction: {error}.") from error
        return cls(
            x=x,
            labels=labels,
            loss=loss,
            seconds=facts["seconds"],
            names=tuple(facts["names"]),
            mean=tuple(facts["mean"]),
            std=tuple(facts["std"]),
            extra=facts["extra"],
        )
