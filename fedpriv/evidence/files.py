"""Evidence on disk: tensors as safetensors, facts as JSON beside them, both or none."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedpriv.errors import BadObservation
from fedpriv.state import State


def write_evidence(
    folder: Path, name: str, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]
) -> Path:
    """Write `<name>.safetensors` and `<name>.json` into `folder`; the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.safetensors"
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as unfinished:
        part = Path(unfinished) / path.name
        save_file({key: _plain(value) for key, value in tensors.items()}, part)
        text = Path(unfinished) / "facts.json"
        text.write_text(json.dumps(dict(facts), indent=1) + "\n")
        part.replace(path)
        text.replace(path.with_suffix(".json"))
    return path


def read_evidence(path: Path) -> tuple[State, dict[str, Any]]:
    """Tensors and facts; BadObservation says what is wrong with a file."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        facts = json.loads(path.with_suffix(".json").read_text())
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise BadObservation(f"{path.name} cannot be read: {error}.") from error
    if not isinstance(facts, dict):
        raise BadObservation(f"the facts of {path.name} must be a table, got {facts!r}.")
    return tensors, facts


def _plain(value: Tensor) -> Tensor:
    return value.detach().cpu().clone(memory_format=torch.contiguous_format)
