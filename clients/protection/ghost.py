"""Clipped sums without the gradient of every sample, for linear layers, from one backward pass.

The gradient of one sample in a linear layer is an outer product: what came in, times what comes
back. So its norm is a product of two norms, and a clipped sum is one product of matrices.

Opacus' ghost clipping takes the norms from one backward pass and the sum from a second one. A
server can choose weights with which the passes differ by rounding: with rows of 1e9 that cancel
out, norms of "clipped" gradients were 1200 times the bound. Its norms for sequences cancel out too.
Here norms and sums come from the same numbers, and norms are added up in double precision.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.grad_sample.functorch import ft_compute_per_sample_gradient
from torch import Tensor, nn
from torch.linalg import vector_norm

from fedpriv.clients.protection.each import clipping_factors
from fedpriv.errors import BadOption


@dataclass(frozen=True)
class OuterProducts:
    """The gradients of a linear layer for N samples: y_i x_iᵀ, and y_i for the bias."""

    layer: nn.Linear
    x: Tensor  # (N, inputs)
    y: Tensor  # (N, outputs)

    def squares(self) -> Tensor:
        """The squared norm of each sample's gradient (N,), in double precision."""
        x, y = (vector_norm(v, dim=1, dtype=torch.float64).square() for v in (self.x, self.y))
        weight = x if self.layer.weight.requires_grad else torch.zeros_like(x)
        found: Tensor = y * (weight + float(has_bias(self.layer)))
        return found

    def sums(self, factors: Tensor) -> dict[Tensor, Tensor]:
        """Gradients times factors, added up; a sample with the factor 0 counts as zero."""
        y, x = scaled(self.y, factors), self.x.where(factors[:, None] > 0, 0)
        found = {self.layer.weight: y.T @ x} if self.layer.weight.requires_grad else {}
        return found | ({self.layer.bias: y.sum(0)} if has_bias(self.layer) else {})


@dataclass(frozen=True)
class Gradients:
    """The gradients of another layer for N samples (N, *shape), by parameter.

    They are made twice, by the same function from the same numbers. Those of all layers together
    would be as many models as there are samples.
    """

    make: Callable[[], dict[nn.Parameter, Tensor]]

    def squares(self) -> Tensor:
        lengths = [
            vector_norm(each.flatten(1), dim=1, dtype=torch.float64)
            for p, each in self.make().items()
            if p.requires_grad
        ]
        return torch.stack(lengths).square().sum(0)

    def sums(self, factors: Tensor) -> dict[Tensor, Tensor]:
        return {p: scaled(e, factors).sum(0) for p, e in self.make().items() if p.requires_grad}


def has_bias(layer: nn.Linear) -> bool:
    return layer.bias is not None and layer.bias.requires_grad


def scaled(each: Tensor, factors: Tensor) -> Tensor:
    """Each row times its factor; 0 where the factor is 0, though the row may be infinite."""
    rows = factors.to(each.dtype).view(-1, *[1] * (each.dim() - 1))
    return (each * rows).where(rows > 0, 0)


class OneBackward(GradSampleModuleFastGradientClipping):  # type: ignore[misc]
    """A model that keeps, for each layer, what its clipped sums are made of."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model, loss_reduction="sum")
        self.parts: list[OuterProducts | Gradients] = []

    def capture_backprops_hook(
        self, module: nn.Module, _: Any, back: Any, loss_reduction: str, batch_first: bool
    ) -> None:
        if not self.hooks_enabled:
            return
        x, y = self.rearrange_grad_samples(
            module=module,
            backprops=back[0].detach(),
            loss_reduction=loss_reduction,
            batch_first=batch_first,
        )
        if type(module) is nn.Linear and y.dim() == 2:
            self.parts.append(OuterProducts(module, x[0], y))
        else:
            sampler = self.GRAD_SAMPLERS.get(type(module), ft_compute_per_sample_gradient)
            self.parts.append(Gradients(partial(sampler, module, x, y)))
        if not module.activations:
            del module.max_batch_len

    def clip(self, bound: float) -> None:
        """Leave the sum of clipped gradients in each parameter's `grad`."""
        norms = torch.stack([part.squares() for part in self.parts]).sum(0).sqrt()
        factors = clipping_factors(norms, bound)
        sums: dict[Tensor, Tensor] = {}
        for part in self.parts:
            for parameter, total in part.sums(factors).items():
                if parameter in sums:
                    raise BadOption(
                        "dp: the model uses a layer twice, which needs grad-sample = 'hooks'."
                    )
                sums[parameter] = total
        for parameter in self.trainable_parameters:
            parameter.grad = sums.get(parameter, torch.zeros_like(parameter))
            parameter._forward_counter = 0
        self.parts = []


class Clipping(Protocol):
    """A model that knows, after a backward pass, the gradient of every sample."""

    def clip(self, bound: float) -> None: ...


def losses(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of each sample; outputs beyond them are of rows that only fill a batch up."""
    return nn.functional.cross_entropy(outputs[: len(y)], y, reduction="none")


@dataclass(frozen=True)
class ClippedLoss:
    """Cross-entropy of a batch, whose backward pass leaves the sum of clipped gradients."""

    model: Clipping
    bound: float

    def __call__(self, outputs: Tensor, y: Tensor) -> "ClippedBatch":
        return ClippedBatch(self, losses(outputs, y))


@dataclass(frozen=True)
class ClippedBatch:
    loss: ClippedLoss
    each: Tensor  # (N,)

    def detach(self) -> Tensor:
        return self.each.detach().mean()

    def backward(self) -> None:
        self.each.sum().backward()
        self.loss.model.clip(self.loss.bound)
