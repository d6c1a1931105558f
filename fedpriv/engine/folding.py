"""BatchNorm in eval mode is an affine map: it is folded into the convolution before it.

Gradients are unfolded again.
"""

from dataclasses import dataclass, replace
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
        victims, names = len(kernel_gradient), self.names
        w, scale, deviation, shift = self.weight, self.scale, self.deviation, self.shift
        several = scale.ndim == 2
        if several:
            repeats = victims // len(scale)
            w, scale, deviation, shift = (
                part.repeat_interleave(repeats, 0) for part in (w, scale, deviation, shift)
            )
        column = scale[..., *[None] * (kernel_gradient.ndim - 2)]
        found = {names["weight"]: kernel_gradient * column}
        if "bias" in names:
            found[names["bias"]] = bias_gradient * scale
        if "gamma" in names:
            flat = kernel_gradient.flatten(2)
            pattern = "vok,vok->vo" if several else "vok,ok->vo"
            through_kernel = torch.einsum(pattern, flat, w.flatten(2 if several else 1))
            found[names["gamma"]] = (through_kernel + bias_gradient * shift) / deviation
        if "beta" in names:
            found[names["beta"]] = bias_gradient
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
