"""An app's model as attacks take it: a copy whose outputs are the logits of classes."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from fedpriv.clients.noticing import Notes
from fedpriv.simulations.apps.support import NotSupported


def logits_of_two(module: nn.Module, arguments: Any, z: Tensor) -> Tensor:
    """(B, 1) logits as (B, 2): cross-entropy of [0, z] is binary cross-entropy of z."""
    return torch.cat([torch.zeros_like(z), z], dim=1)


def logits_of_probability(module: nn.Module, arguments: Any, p: Tensor) -> Tensor:
    """(B, 1) probabilities as (B, 2) logits."""
    return logits_of_two(module, arguments, torch.logit(p, eps=1e-6))


def adapted(notes: Notes, state: set[str]) -> nn.Module:
    """A copy of the model that a client trained; NotSupported where no attack takes it.

    `state` are the names of what is sent. The copy's own weights are never used.
    """
    if notes.tokens:
        raise NotSupported(
            "the app's model takes whole numbers, as text models do, and attacks here take "
            "pictures, signals and tables."
        )
    if notes.model is None:
        raise NotSupported(
            "no training step of the app's clients was seen: they may train in processes of their "
            "own, or without torch's optimisers."
        )
    if len(notes.parts) > 1:
        raise NotSupported(
            f"the app's clients call the parts of their model one by one "
            f"({', '.join(sorted(notes.parts))}, loss {' and '.join(sorted(notes.losses))}), and "
            "attacks here take a model that is called as a whole."
        )
    model = copy.deepcopy(notes.model)
    for module in model.modules():  # hooks of Opacus and of others stay with the original
        for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            getattr(module, name).clear()
    for parameter in model.parameters():
        parameter.grad = None
        parameter.__dict__.clear()
    if notes.losses <= {"bce", "bce-with-logits"}:
        turn = logits_of_probability if notes.losses == {"bce"} else logits_of_two
        model.register_forward_hook(turn)
    return model
