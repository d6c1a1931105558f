"""Truth: the samples a client really used, on its own disk in audit mode; only scoring reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadInput
from fedpriv.files import whole


ATTRIBUTE, SECRET = "attribute/", "secret/"


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """What one client trained on in one round.

    `x` (N, …) are its own samples as the model takes them (normalised), each once, `trained` the same
    after the plugins' `on_batch`, `y` (N,) their labels, `indices` their numbers in the data set.
    `clean` is ‖B‖, the norm of the update that plain training on the same batches gives, `added` is ‖E‖,
    that of the released update less the clean one (SPN fig. 5); both are nan where codes were shared.
    `attributes` are labels (N,) by name, `secrets` what a plugin kept secret, such as a mask.
    """

    x: Tensor
    trained: Tensor
    y: Tensor
    indices: Tensor
    clean: float
    added: float
    round: int
    node: int
    attributes: Mapping[str, Tensor] = field(default_factory=dict)
    secrets: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`<round>-<node>`, as the observation of the same update."""
        return f"{self.round}-{self.node}"

    def save(self, folder: Path | str) -> Path:
        """Write `<round>-<node>.npz` for the owner's eyes only."""
        path = Path(folder) / f"{self.name}.npz"
        tensors = {key: getattr(self, key).numpy() for key in ("x", "trained", "y", "indices")}
        facts = np.array([self.clean, self.added, self.round, self.node], dtype=np.float64)
        with whole(path, mode=0o600) as beside, beside.open("wb") as file:
            np.savez(file, **tensors, **self._besides(), facts=facts)
        return path

    def _besides(self) -> dict[str, Any]:
        """Attributes and secrets by the names they have in the file; none for most updates."""
        found = {f"{ATTRIBUTE}{name}": value for name, value in self.attributes.items()}
        found |= {f"{SECRET}{name}": value for name, value in self.secrets.items()}
        return {name: value.numpy() for name, value in found.items()}

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                tensors = {
                    key: torch.from_numpy(file[key]) for key in ("x", "trained", "y", "indices")
                }
                attributes, secrets = (
                    {
                        key.removeprefix(kind): torch.from_numpy(file[key])
                        for key in file.files
                        if key.startswith(kind)
                    }
                    for kind in (ATTRIBUTE, SECRET)
                )
                clean, added, server_round, node = file["facts"].tolist()
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise BadInput(f"'{path}' is no truth of an audit: {error}.") from error
        return cls(
            **tensors,
            attributes=attributes,
            secrets=secrets,
            clean=clean,
            added=added,
            round=int(server_round),
            node=int(node),
        )
