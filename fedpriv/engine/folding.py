"""BatchNorm in eval mode is an affine map: fold it into the convolution before it, and unfold gradients."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.state import State

Unfold = Callable[
    [Tensor, Tensor], State
]  # gradients of the folded kernel and bias -> of the originals


@dataclass(frozen=True, eq=False)
class Folded:
    """A kernel and a bias that do the work of a convolution and the BatchNorm behind it.

    With s = γ/√(var + ε): kernel W·s, bias β + (b − mean)·s.
    """

    kernel: Tensor
    bias: Tensor
    unfold: Unfold


def folded(names: dict[str, str], weights: State, mean: Tensor, var: Tensor, eps: float) -> Folded:
    """Fold by the chain rule; `names` maps weight, bias, gamma, beta to the parameters that exist."""
    w = weights[names["weight"]]
    deviation = (var + eps).sqrt()
    ones = torch.ones_like(mean)
    gamma = weights[names["gamma"]] if "gamma" in names else ones
    beta = weights[names["beta"]] if "beta" in names else 0 * ones
    own = weights[names["bias"]] if "bias" in names else 0 * ones
    scale = gamma / deviation
    column = (-1, *[1] * (w.ndim - 1))

    def unfold(kernel_gradient: Tensor, bias_gradient: Tensor) -> State:
        found = {names["weight"]: kernel_gradient * scale.view(column)}
        if "bias" in names:
            found[names["bias"]] = bias_gradient * scale
        if "gamma" in names:
            through_kernel = torch.einsum("vok,ok->vo", kernel_gradient.flatten(2), w.flatten(1))
            found[names["gamma"]] = (through_kernel + bias_gradient * (own - mean)) / deviation
        if "beta" in names:
            found[names["beta"]] = bias_gradient
        return found

    return Folded(w * scale.view(column), beta + (own - mean) * scale, unfold)
