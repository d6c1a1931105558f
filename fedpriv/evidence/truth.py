"""Truth: what a client really used, kept on its own disk; only the judge reads it."""

import math
import zlib
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

TRUTH_VARIABLE = "FEDPRIV_TRUTH"  # names the folder where clients of one environment keep it
EXACT = 2**53  # Flower's node ids have more digits than a float
NETWORKS = "networks.safetensors"  # those that an encoder was trained with, beside the truth
DECODER, CLASSIFIER, STANDARDISED = "decoder", "classifier", "standardised"
ATTRIBUTE, SECRET = "attribute/", "secret/"  # what the names of optional arrays begin with


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """What one client used in one round, to train or to make codes of.

    Args:
        x: (N, …), its own samples as the model takes them (normalised), each once. Behind codes,
            row i is the sample of code i. (N, 0) where only their numbers were kept.
        trained: The same samples after the plugins' `on_batch`. Behind codes it is `x`.
        y: (N,), their labels.
        indices: (N,), their numbers in the data set.
        clean: ‖B‖, the norm of the update that plain training on the same batches gives (SPN
            fig. 5). It is nan behind codes.
        added: ‖E‖, the norm of the released update minus the clean one. It is nan behind codes.
        round: The round of the federation.
        node: The client's partition.
        clean_biases: ‖B‖ over the biases alone, as the paper has it; nan where there are none.
        added_biases: ‖E‖ over the biases alone.
        attributes: Behind codes, the labels (N,) of every attribute, by name.
        secrets: What else the judge needs, such as the `mask` of ARS. What is missing is not
            scored.

    Example:
        >>> import torch
        >>> from fedpriv import Truth
        >>> x, y = torch.rand(2, 4), torch.tensor([0, 1])
        >>> facts = {"indices": torch.arange(2), "clean": 1.0, "added": 0.0, "round": 1, "node": 3}
        >>> Truth(x=x, trained=x, y=y, **facts).name
        '1-3'
    """

    x: Tensor
    trained: Tensor
    y: Tensor
    indices: Tensor
    clean: float
    added: float
    round: int
    node: int
    clean_biases: float = math.nan
    added_biases: float = math.nan
    attributes: Mapping[str, Tensor] = field(default_factory=dict)
    secrets: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def samples(self) -> bool:
        """Whether the samples themselves were kept, and not their numbers alone."""
        return self.x.numel() > 0

    @property
    def name(self) -> str:
        """`<round>-<node>`, as the observation of the same reply."""
        return f"{self.round}-{self.node}"

    def save(self, folder: Path | str) -> Path:
        """Write `<round>-<node>.npz` for the owner's eyes only."""
        path = Path(folder) / f"{self.name}.npz"
        tensors = {"x": self.x, "trained": self.trained, "y": self.y, "indices": self.indices}
        if self.trained is self.x:
            del tensors["trained"]  # all samples of a party: half the file
        tensors |= {ATTRIBUTE + name: labels for name, labels in self.attributes.items()}
        tensors |= {SECRET + name: value for name, value in self.secrets.items()}
        arrays: dict[str, Any] = {key: value.cpu().numpy() for key, value in tensors.items()}
        numbers = [self.clean, self.added, self.round, self.node]
        facts = np.array([*numbers, self.clean_biases, self.added_biases], dtype=np.float64)
        if self.node > EXACT:
            arrays["node"] = np.array(str(self.node))
        with whole(path, mode=0o600) as beside, beside.open("wb") as file:
            np.savez(file, **arrays, facts=facts)
        return path

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                plain = [key for key in file.files if key not in ("facts", "node")]
                found = {key: torch.from_numpy(file[key]) for key in plain}
                clean, added, server_round, node, *biases = file["facts"].tolist()
                biases = biases or [math.nan, math.nan]  # files of earlier versions have none
                node = str(file["node"]) if "node" in file.files else node
            return cls(
                x=found["x"],
                trained=found.get("trained", found["x"]),
                y=found["y"],
                indices=found["indices"],
                clean=clean,
                added=added,
                round=int(server_round),
                node=int(node),
                clean_biases=biases[0],
                added_biases=biases[1],
                attributes=_below(ATTRIBUTE, found),
                secrets=_below(SECRET, found),
            )
        except (
            OSError,
            EOFError,
            ValueError,
            TypeError,
            KeyError,
            BadZipFile,
            zlib.error,
        ) as error:
            raise BadInput(f"'{path}' is no truth that a client kept: {error}.") from error


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, by the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
