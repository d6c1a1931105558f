"""BatchNorm in eval mode is an affine map: it is folded into the convolution before it.

Gradients are unfolded again.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from fedpriv.state import State


@dataclass(frozen=True, eq=False)
class Unfold:
    """Gradients of the folded kernel and bias -> those of the parameters that were folded.

    Every tensor belongs to all victims, or has a leading axis of sets of weights.
    """

    names: dict[str, str]
    weight: Tensor
    scale: Tensor
    deviation: Tensor
    shift: Tensor

    def __call__(self, kernel_gradient: Tensor, bias_gradient: Tensor) -> State:
        victims, names = kernel_gradient.shape[0], self.names
        w, scale, deviation, shift = self.weight, self.scale, self.deviation, self.shift
        several = scale.ndim == 2
        if several:
            repeats = victims // scale.shape[0]
            w, scale, deviation, shift = (
                part.repeat_interleave(repeats, 0) for part in (w, scale, deviation, shift)
            )
        column = scale[..., *[None] * (kernel_gradient.ndim - 2)]
        found = {names["weight"]: kernel_gradient * column}
        if "bias" in names:
            found[names["bias"]] = bias_gradient * scale
        if "gamma" in names:
            through_kernel = torch.linalg.vecdot(kernel_gradient.flatten(2), w.flatten(-3))
            found[names["gamma"]] = (through_kernel + bias_gradient * shift) / deviation
        if "beta" in names:
            found[names["beta"]] = bias_gradient
        return found

    def aim(self, target: State) -> tuple[Tensor, Tensor]:
        """The transpose of what `self` does, for one set of weights."""
        names, scale = self.names, self.scale
        kernel = target[names["weight"]] * scale[:, *[None] * (self.weight.ndim - 1)]
        bias = kernel.new_zeros(kernel.shape[0], scale.shape[0])
        if "bias" in names:
            bias = bias + target[names["bias"]] * scale
        if "gamma" in names:
            gamma = target[names["gamma"]] / self.deviation
            kernel = kernel + gamma[..., *[None] * (self.weight.ndim - 1)] * self.weight
            bias = bias + gamma * self.shift
        if "beta" in names:
            bias = bias + target[names["beta"]]
        return kernel, bias

    def square(self, kernel: Tensor, bias: Tensor, gamma: Tensor) -> Tensor:
        """‖g‖² per victim of the gradients g that `self` makes of kernel and bias."""
        flat = kernel.flatten(2)
        own = torch.linalg.vecdot(flat, flat) * self._own_kernel
        own = own.addcmul_(bias.square(), self._own_bias)
        found: Tensor = own.add_(gamma.square()).sum(1)
        return found

    def direction(
        self,
        raw: tuple[Tensor, ...],
        aim: tuple[Tensor, ...],
        gamma: Tensor,
        down: Tensor,
        up: Tensor,
    ) -> tuple[Tensor, ...]:
        """As Rule.direction."""
        kernel, bias = raw
        up, down = up.unsqueeze(1), down.unsqueeze(1)
        gamma = gamma * up / self.deviation
        flat = kernel.flatten(2) * (up * self._own_kernel).unsqueeze(2)
        flat.addcmul_(aim[0].flatten(2), down.unsqueeze(2))
        if "gamma" in self.names:
            flat.addcmul_(gamma.unsqueeze(2), self.weight.flatten(1))
        of_bias = (bias * up).mul_(self._own_bias).addcmul_(gamma, self.shift)
        return flat.view(kernel.shape), of_bias.addcmul_(aim[1], down)

    @cached_property
    def _own_kernel(self) -> Tensor:
        """How much the gradient of the folded kernel counts for that of the kernel, squared."""
        return self.scale.square()

    @cached_property
    def _own_bias(self) -> Tensor:
        """How much the gradient of the folded bias counts for those of bias and beta, squared."""
        found = torch.zeros_like(self.scale)
        found += self._own_kernel if "bias" in self.names else 0
        return found + 1 if "beta" in self.names else found

    def gamma(self, kernel: Tensor, bias: Tensor) -> Tensor:
        """The gradient of gamma, (V, out); zero where there is none."""
        if "gamma" not in self.names:
            return torch.zeros_like(bias)
        through = torch.linalg.vecdot(kernel.flatten(2), self.weight.flatten(1))
        found: Tensor = through.addcmul_(bias, self.shift).div_(self.deviation)
        return found

    def picked(self, index: Tensor | int) -> Self:
        """With some of the sets of weights, or one of them for all victims."""
        return replace(
            self,
            weight=self.weight[index],
            scale=self.scale[index],
            deviation=self.deviation[index],
            shift=self.shift[index],
        )


@dataclass(frozen=True, eq=False)
class Folded:
    """A kernel and a bias that do the work of a convolution and the BatchNorm behind it.

    With s = γ/√(var + ε): kernel W·s, bias β + (b − mean)·s.
    """

    kernel: Tensor
    bias: Tensor
    unfold: Unfold


def folded(names: dict[str, str], weights: State, mean: Tensor, var: Tensor, eps: float) -> Folded:
    """Fold by the chain rule; `names` maps weight, bias, gamma, beta to existing parameters."""
    w = weights[names["weight"]]
    deviation = (var + eps).sqrt()
    ones = torch.ones_like(mean)
    gamma = weights[names["gamma"]] if "gamma" in names else ones
    beta = weights[names["beta"]] if "beta" in names else 0 * ones
    own = weights[names["bias"]] if "bias" in names else 0 * ones
    scale = gamma / deviation
    column = scale[..., *[None] * (w.ndim - mean.ndim)]
    unfold = Unfold(names, w, scale, deviation, own - mean)
    return Folded(w * column, beta + (own - mean) * scale, unfold)
