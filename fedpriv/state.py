"""What a federation shares: tensors by parameter name, and the arithmetic of updates."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

State = dict[str, Tensor]


def state_of(model: nn.Module) -> State:
    """A detached copy of the model's state on the CPU, buffers included."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def added(before: State, update: Mapping[str, Tensor]) -> State:
    """As `apply`, written into `before` where that is possible; `before` is gone afterwards."""
    return {
        name: value
        if name not in update
        else value.add_(update[name])
        if value.dtype == update[name].dtype and value.shape == update[name].shape
        else value + update[name]
        for name, value in before.items()
    }


def difference(after: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> State:
    """after − before for every floating-point entry; counters have no update."""
    return {
        name: after[name] - value for name, value in before.items() if value.is_floating_point()
    }


def apply(before: Mapping[str, Tensor], update: Mapping[str, Tensor]) -> State:
    """before + update; an entry without an update stays as it was."""
    return {
        name: value + update[name] if name in update else value.clone()
        for name, value in before.items()
    }


def norm(update: Mapping[str, Tensor]) -> float:
    """The Euclidean norm over all entries; the same to the last bit in any order of the names."""
    squares = [value.double().square().sum() for value in update.values()]
    return float(torch.stack(squares).sort().values.sum().sqrt()) if squares else 0.0


def digest(state: Mapping[str, Tensor]) -> str:
    """A SHA-256 over names, shapes and bytes, in name order."""
    total = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        total.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        total.update(value.numpy().tobytes())
    return total.hexdigest()
