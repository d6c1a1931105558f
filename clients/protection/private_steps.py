"""DP-SGD's steps through Opacus, with noise of our own and no sample that breaks the sum.

A server chooses the model. With weights near the largest float it can arrange that the gradient of
one sample is NaN or infinite if some pixel is bright, and not otherwise. Clipping does not bound
such a gradient and noise does not hide it. A sample whose gradient is not finite therefore counts
as zero, by itself: the other samples of its batch count as ever.

With such weights rounding speaks, too. ε takes it for granted that one sample more leaves the
gradients of the others as they are, to the last bit. So nothing is divided by the size of a batch,
and small batches are filled up (`rows.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from opacus.grad_sample.utils import wrap_model
from opacus.optimizers import DPOptimizer, get_optimizer_class
from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.clients.protection.ghost import ClippedLoss, OneBackward, losses
from fedpriv.clients.protection.per_sample import PerSample
from fedpriv.clients.protection.rows import filled, least_rows
from fedpriv.rng import Draws

# Models that leave clipped sums behind. The other ways of Opacus leave a gradient for every sample.
CLIPPING: dict[str, Callable[[nn.Module], Any]] = {"explicit": PerSample, "ghost": OneBackward}


@dataclass
class Steps:
    """What DP-SGD's steps are taken with."""

    model: nn.Module
    loss: Callable[..., Any]
    optimiser: Any


def private(
    plain: Steps,
    draws: Draws,
    mode: str,
    noise: float,
    norm: float,
    batch: int,
    shape: tuple[int, ...],
) -> Steps:
    """Model, loss and optimiser wrapped, for samples of a `shape`.

    `batch` is the expected size of one, a public number.
    """
    clips = CLIPPING.get(mode)
    model, loss = plain.model, plain.loss
    if clips is not None:
        least = least_rows(model, shape)
        model = clips(model)
        loss = ClippedLoss(model, norm)
        model.register_forward_pre_hook(partial(fill, least))
    elif loss is nn.functional.cross_entropy:
        least = least_rows(model, shape)
        model = wrap_model(model, grad_sample_mode=mode, loss_reduction="sum")
        loss = summed
        model.register_forward_pre_hook(partial(fill, least))
    else:  # a loss of another plugin's, whose mean cannot be undone
        model = wrap_model(model, grad_sample_mode=mode, loss_reduction="mean")
    sums = mode if clips is None else "ghost"  # whose optimiser takes sums that are clipped
    kind = get_optimizer_class("flat", distributed=False, grad_sample_mode=sums)
    optimiser = type("PrivateOptimiser", (OwnNoise, kind), {"draws": draws})(
        plain.optimiser, noise_multiplier=noise, max_grad_norm=norm, expected_batch_size=batch
    )
    return Steps(model, loss, optimiser)


def make_private(job: Job, draws: Draws, mode: str, noise: float, norm: float, batch: int) -> None:
    plain = Steps(job.model, job.loss, job.optimiser)
    made = private(plain, draws, mode, noise, norm, batch, tuple(job.x.shape[1:]))
    job.model, job.loss, job.optimiser = made.model, made.loss, made.optimiser


def fill(least: int, _: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """A model's input before it is called, with the rows that it lacks."""
    return (filled(inputs[0], least),)


@dataclass(frozen=True)
class Summed:
    """The losses of a batch, whose backward pass is that of their sum."""

    each: Tensor  # (N,)

    def detach(self) -> Tensor:
        return self.each.detach().mean()

    def backward(self) -> None:
        self.each.sum().backward()


def summed(outputs: Tensor, y: Tensor) -> Summed:
    return Summed(losses(outputs, y))


def finite(values: list[Tensor]) -> bool:
    """Whether every number is finite; a sum of numbers is finite only if all of them are."""
    return all(bool(value.sum().isfinite()) for value in values)


class OwnNoise(DPOptimizer):  # type: ignore[misc]
    """An optimiser of Opacus whose noise comes from `draws`, added in the precision it has."""

    draws: Draws

    def clip_and_accumulate(self) -> None:
        super().clip_and_accumulate()
        sums = [p.summed_grad for p in self.params if p.summed_grad is not None]
        if finite(sums):
            return
        each = [g.flatten(1).isfinite().all(1) for g in self.grad_samples]
        usable = torch.stack(each).all(0)
        for p in self.params:
            rows = usable.view(-1, *[1] * (p.grad_sample.dim() - 1))
            p.grad_sample, p.summed_grad = p.grad_sample.where(rows, 0), None
        super().clip_and_accumulate()

    def accumulate(self) -> None:
        """Sums that are clipped already become the sums of this step; no copy is made of them."""
        for p in self.params:
            p.summed_grad = p.grad if p.summed_grad is None else p.summed_grad + p.grad

    def add_noise(self) -> None:
        deviation = self.noise_multiplier * self.max_grad_norm
        if deviation > 0:
            self.draws.add_noise([p.summed_grad for p in self.params], deviation)
        for p in self.params:
            p.grad = p.summed_grad.view_as(p)
