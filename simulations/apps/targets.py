"""Losses that are no cross-entropy of classes: a sample brings its target along.

Attacks here know models that give logits, and cross-entropy. A sample of a regression is its
input and its target in one row, that of an autoencoder its input alone. The model is made to give
the two logits [0, z] with log(1 + e^z) = loss: their cross-entropy with class 0 is the app's own
loss of the sample, and so are its gradients.
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from fedpriv.clients.noticing import Notes
from fedpriv.clients.rescaling import LOSSES

LEAST = 1e-12  # below it a loss is 0


@dataclass(frozen=True)
class Target:
    """The loss of an app by name, and the shapes of a sample and of its target."""

    loss: str
    x: tuple[int, ...]
    y: tuple[int, ...] | None  # None: the input is its own target
    whole: bool = False  # whether targets are whole numbers, as the pixels of a mask are

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample together with its target."""
        return self.x if self.y is None else (prod(self.x) + prod(self.y),)

    def joined(self, x: Tensor, y: Tensor) -> Tensor:
        """(B, …) samples with their targets."""
        if self.y is None:
            return x
        return torch.cat([x.flatten(1), y.reshape(len(x), -1).to(x.dtype)], 1)


def target_of(notes: Notes) -> Target | None:
    """The target of an app's samples; None where it is a class, or nothing is known of it."""
    if len(notes.losses) != 1 or not notes.y or [len(y) for y in notes.y] != notes.sizes:
        return None
    (name,) = notes.losses
    x, y = notes.x[0], notes.y[0]
    single = y.reshape(len(y), -1).shape[1] == 1
    classes = name in ("cross-entropy", "nll") or (
        name in ("bce", "bce-with-logits") and notes.outputs == {1}
    )
    if name not in LOSSES or (classes and single):
        return None
    shape = None if notes.itself else tuple(y.shape[1:])
    return Target(name, tuple(x.shape[1:]), shape, not y.is_floating_point())


def own_loss(model: nn.Module, target: Target) -> None:
    """Hooks that make a model take samples with their targets, and give their losses as logits."""
    kept: list[Tensor] = []
    count = prod(target.x)

    def taken_apart(module: nn.Module, arguments: Any) -> Any:
        (v,) = arguments
        if target.y is None:
            kept[:] = [v]
            return (v,)
        kept[:] = [v[:, count:].unflatten(1, target.y) if target.y else v[:, count]]
        return (v[:, :count].unflatten(1, target.x),)

    def as_logits(module: nn.Module, arguments: Any, out: Tensor) -> Tensor:
        y = kept.pop()
        y = y.round().long() if target.whole else y.reshape(out.shape)
        each = LOSSES[target.loss](out, y, reduction="none").flatten(1).mean(1)
        each = each.clamp_min(LEAST)
        z = each + torch.log(-torch.expm1(-each))  # log(e^loss − 1)
        return torch.stack([torch.zeros_like(z), z], 1)

    model.only_class = 0  # type: ignore[assignment]  # what attacks read instead of labels
    model.register_forward_pre_hook(taken_apart)
    model.register_forward_hook(as_logits)


def brought_along(notes: Notes, target: Target) -> None:
    """Samples and targets of notes as one; the class of every sample is then 0."""
    notes.x = [target.joined(x, y) for x, y in zip(notes.x, notes.y, strict=True)]
    notes.y = [torch.zeros(len(x), dtype=torch.long) for x in notes.x]
    notes.losses, notes.outputs = {"cross-entropy"}, {2}
