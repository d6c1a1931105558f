"""DP-SGD's steps through Opacus, with noise of our own and no sample that breaks the sum.

A server chooses the model. With weights near the largest float it can arrange that the gradient of
one sample is NaN or infinite if some pixel is bright, and not otherwise. Clipping does not bound
such a gradient and noise does not hide it. A sample whose gradient is not finite therefore counts
as zero, by itself: the other samples of its batch count as ever.
"""

from typing import Any

import torch
from opacus.grad_sample.utils import wrap_model
from opacus.optimizers import DPOptimizer, get_optimizer_class
from opacus.utils.fast_gradient_clipping_utils import (
    DPLossFastGradientClipping,
    DPTensorFastGradientClipping,
)
from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.rng import Draws


def make_private(job: Job, draws: Draws, mode: str, noise: float, norm: float, batch: int) -> None:
    """Wrap model, optimiser and loss; `batch` is the expected size of one, a public number."""
    ghost = mode == "ghost"
    extra = {"max_grad_norm": norm, "use_ghost_clipping": True} if ghost else {}
    job.model = wrap_model(job.model, grad_sample_mode=mode, loss_reduction="mean", **extra)
    kind = get_optimizer_class("flat", distributed=False, grad_sample_mode=mode)
    job.optimiser = type("PrivateOptimiser", (OwnNoise, kind), {"draws": draws})(
        job.optimiser, noise_multiplier=noise, max_grad_norm=norm, expected_batch_size=batch
    )
    if ghost:
        job.loss = GhostLoss(job.model, job.optimiser, nn.CrossEntropyLoss(), "mean")


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
        for p in self.params:
            total = p.summed_grad
            if deviation > 0:
                drawn = self.draws.normal(total.shape, total.dtype).to(total.device)
                total = drawn.mul_(deviation).add_(total).to(total.dtype)
            p.grad = total.view_as(p)


class GhostLoss(DPLossFastGradientClipping):  # type: ignore[misc]
    """Opacus' loss of ghost clipping, which never has the gradient of a single sample."""

    def __init__(self, model: Any, *rest: Any) -> None:
        super().__init__(model, *rest)
        self.x: Tensor
        model.register_forward_pre_hook(lambda _, given: setattr(self, "x", given[0]))

    def __call__(self, outputs: Tensor, y: Tensor) -> "GhostBatch":
        return GhostBatch(self, self.x, y, super().__call__(outputs, y))


class GhostBatch:
    """The losses of a batch; backward leaves the sum of clipped gradients."""

    def __init__(
        self, loss: GhostLoss, x: Tensor, y: Tensor, inner: DPTensorFastGradientClipping
    ) -> None:
        self.loss, self.x, self.y, self.inner = loss, x, y, inner

    def detach(self) -> Tensor:
        found: Tensor = self.inner.detach()
        return found

    def backward(self) -> None:
        """All samples at once; one by one if a gradient is not finite, to find out whose."""
        self.inner.backward()
        if finite(self.gradients()) or not len(self.y):
            return
        totals = [torch.zeros_like(p) for p in self.parameters]
        for i in range(len(self.y)):
            self.loss.optimizer.zero_grad()
            one = self.loss(self.loss.module(self.x[i : i + 1]), self.y[i : i + 1])
            one.inner.backward()
            found = self.gradients()
            if finite(found):
                for total, gradient in zip(totals, found, strict=True):
                    total += gradient
        for p, total in zip(self.parameters, totals, strict=True):
            p.grad = total

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self.loss.optimizer.params)

    def gradients(self) -> list[Tensor]:
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
