"""An app's model as attacks take it: a copy whose outputs are the logits of classes."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedpriv.clients.noticing import Notes
from fedpriv.simulations.apps.support import NotSupported
from fedpriv.simulations.apps.targets import Target, own_loss
from fedpriv.state import State

Part = tuple[nn.Module, tuple[int, ...]]


def logits_of_two(module: nn.Module, arguments: Any, z: Tensor) -> Tensor:
    """(B, 1) logits as (B, 2): cross-entropy of [0, z] is binary cross-entropy of z."""
    return torch.cat([torch.zeros_like(z), z], dim=1)


def logits_of_probability(module: nn.Module, arguments: Any, p: Tensor) -> Tensor:
    """(B, 1) probabilities as (B, 2) logits."""
    return logits_of_two(module, arguments, torch.logit(p, eps=1e-6))


class Chain(nn.Module):
    """Parts that are called one after the other, each on what the one before gave."""

    def __init__(self, parts: Sequence[tuple[str, Part]]) -> None:
        super().__init__()
        self.order = [(name, shape) for name, (_, shape) in parts]
        for name, (module, _) in parts:
            *way, last = name.split(".")
            inside: nn.Module = self
            for step in way:
                if not hasattr(inside, step):
                    inside.add_module(step, nn.Module())
                inside = getattr(inside, step)
            inside.add_module(last, module)

    def forward(self, x: Tensor) -> Tensor:
        for name, shape in self.order:
            x = self.get_submodule(name)(x.reshape(-1, *shape))
        return x


def places_of(parts: Sequence[Part], state: State) -> list[tuple[str, Part]]:
    """The parts by the names that they have in what is sent; by number where it has none."""
    shapes = {key: value.shape for key, value in state.items()}
    found: list[tuple[str, Part]] = []
    for number, part in enumerate(parts):
        own = {key: value.shape for key, value in part[0].state_dict().items()}
        first = next(iter(own))
        ends = [key.removesuffix(f".{first}") for key in state if key.endswith(f".{first}")]
        free = [
            name
            for name in sorted(ends)
            if name not in dict(found)
            and all(shapes.get(f"{name}.{key}") == shape for key, shape in own.items())
        ]
        found.append((free[0] if free else f"part{number}", part))
    return found


def adapted(notes: Notes, state: State, target: Target | None = None) -> nn.Module:
    """A copy of the model that a client trained; NotSupported where no attack takes it.

    `state` is what is sent, for its names. The copy's own weights are never used. With a `target`
    it gives the loss of a sample that brings its target along.
    """
    if notes.tokens:
        raise NotSupported(
            "the app's model takes whole numbers, as text models do, and attacks here take "
            "pictures, signals and tables."
        )
    if not notes.chain:
        raise NotSupported(
            "no training step of the app's clients was seen: they may train in processes of their "
            "own, or without torch's optimisers."
        )
    if notes.parts:
        raise NotSupported(
            f"the app's clients train several models side by side "
            f"({', '.join(sorted(notes.parts))}, loss {' and '.join(sorted(notes.losses))}), and "
            "attacks here take one model that is called as a whole."
        )
    parts = copy.deepcopy(notes.chain)
    for module in (each for part, _ in parts for each in part.modules()):
        # Hooks of Opacus and of others stay with the original.
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            getattr(module, name).clear()
        for parameter in module.parameters():
            parameter.grad = None
            parameter.__dict__.clear()
    model = parts[0][0] if len(parts) == 1 else Chain(places_of(parts, state))
    if target is not None:
        own_loss(model, target)
    elif notes.losses <= {"bce", "bce-with-logits"}:
        turn = logits_of_probability if notes.losses == {"bce"} else logits_of_two
        model.register_forward_hook(turn)
    return model
