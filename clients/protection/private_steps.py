"""DP-SGD's steps through Opacus, with noise of our own and no sample that breaks the sum.

A server chooses the model. With weights near the largest float it can arrange that the gradient of
one sample is NaN or infinite if some pixel is bright, and not otherwise. Clipping does not bound
such a gradient and noise does not hide it. A sample whose gradient is not finite therefore counts
as zero, by itself: the other samples of its batch count as ever.

With such weights rounding speaks, too. ε takes it for granted that one sample more leaves the
gradients of the others as they are, to the last bit. So nothing is divided by the size of a batch,
and small batches are filled up, since libraries compute a few rows in another way than many.
"""

from dataclasses import dataclass

import torch
from opacus.grad_sample.utils import wrap_model
from opacus.optimizers import DPOptimizer, get_optimizer_class
from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.clients.protection.ghost import ClippedLoss, OneBackward, losses
from fedpriv.rng import Draws

LEAST = 4  # rows of a batch from which each one is computed in the same way


def make_private(job: Job, draws: Draws, mode: str, noise: float, norm: float, batch: int) -> None:
    """Wrap model, optimiser and loss; `batch` is the expected size of one, a public number."""
    if mode == "ghost":
        job.model = OneBackward(job.model)
        job.loss = ClippedLoss(job.model, norm)
        job.model.register_forward_pre_hook(filled)
    elif job.loss is nn.functional.cross_entropy:
        job.model = wrap_model(job.model, grad_sample_mode=mode, loss_reduction="sum")
        job.loss = summed
        job.model.register_forward_pre_hook(filled)
    else:  # a loss of another plugin's, whose mean cannot be undone
        job.model = wrap_model(job.model, grad_sample_mode=mode, loss_reduction="mean")
    kind = get_optimizer_class("flat", distributed=False, grad_sample_mode=mode)
    job.optimiser = type("PrivateOptimiser", (OwnNoise, kind), {"draws": draws})(
        job.optimiser, noise_multiplier=noise, max_grad_norm=norm, expected_batch_size=batch
    )


def filled(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """A batch with rows of zeros in the place of those that it lacks; no loss looks at them."""
    (x,) = inputs
    lacking = max(0, LEAST - len(x))
    return (torch.cat([x, x.new_zeros((lacking, *x.shape[1:]))]) if lacking else x,)


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

    def add_noise(self) -> None:
        deviation = self.noise_multiplier * self.max_grad_norm
        if deviation > 0:
            self.draws.add_noise([p.summed_grad for p in self.params], deviation)
        for p in self.params:
            p.grad = p.summed_grad.view_as(p)
