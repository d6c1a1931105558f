"""How each kind of layer takes part in the four passes of the explicit engine.

An attack needs the gradient with respect to x of ⟨v, ∇_θ L(x)⟩. Two passes give ∇_θ L (forward,
backward); two more give the derivative of the backward pass in the direction v (tangent, second).
Letters: a what enters a layer, z what leaves it, d = dL/dz; a dot over them is `_dot`. A tangent that is
zero everywhere is None. `tape` is the layer's own memory during one evaluation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Tape = dict[str, Any]
MaybeTensor = Tensor | None


class Rule:
    """One operation; linear ones need only say what `transposed` does."""

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        raise NotImplementedError

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        """dL/da for each input."""
        return self.transposed(tape, d)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        return None if a_dot[0] is None else self.forward({}, *(d for d in a_dot if d is not None))

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        return self.transposed(tape, d_dot)

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        raise NotImplementedError


class Rectifier(Rule):
    """ReLU: the mask is its derivative, and its second derivative is zero."""

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        z = torch.relu(a[0])
        tape["z"] = z
        return z

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        return None if a_dot[0] is None else self.transposed(tape, a_dot[0])[0]

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        return (torch.ops.aten.threshold_backward(d, tape["z"], 0),)


@dataclass(frozen=True)
class Smooth(Rule):
    """An activation whose derivatives are functions of its own output."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]  # z -> dz/da
    bend: Callable[[Tensor, Tensor], Tensor]  # z, slope -> d²z/da²

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        z = self.value(a[0])
        tape["z"] = z
        return z

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["slope"], tape["d"] = self.slope(tape["z"]), d
        return (tape["slope"] * d,)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        tape["a_dot"] = a_dot[0]
        if a_dot[0] is None:
            return None
        return tape["slope"] * a_dot[0]

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        slope = tape["slope"] if "slope" in tape else self.slope(tape["z"])
        out = slope * d_dot
        if tape["a_dot"] is not None:
            out.addcmul_(self.bend(tape["z"], slope).mul_(tape["a_dot"]), tape["d"])
        return (out,)


SIGMOID = Smooth(
    torch.sigmoid, lambda z: z * (1 - z), lambda z, slope: slope * torch.sub(1, z, alpha=2)
)
TANH = Smooth(torch.tanh, lambda z: 1 - z.square(), lambda z, slope: slope * z * -2)


@dataclass(frozen=True)
class MaxPool(Rule):
    """Each output follows the input that won."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil: bool

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        z, winner = torch.nn.functional.max_pool2d_with_indices(
            a[0], self.kernel, self.stride, self.padding, self.dilation, self.ceil
        )
        tape["a"], tape["winner"] = a[0], winner
        return z

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        if a_dot[0] is None:
            return None
        winner = tape["winner"]
        return a_dot[0].flatten(2).gather(2, winner.flatten(2)).view(winner.shape)

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        back = torch.ops.aten.max_pool2d_with_indices_backward
        options = (self.kernel, self.stride, self.padding, self.dilation, self.ceil)
        return (back(d, tape["a"], *options, tape["winner"]),)


@dataclass(frozen=True)
class LinearMap(Rule):
    """Any operation without parameters that is linear in its one input: pooling, padding, slicing."""

    function: Callable[[Tensor], Tensor]

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["shape"] = a[0].shape
        return self.function(a[0])

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        with torch.enable_grad():
            zero = d.new_zeros(()).expand(tape["shape"]).requires_grad_()
            return torch.autograd.grad(self.function(zero), zero, d)


class Reshape(Rule):
    """(N, …) -> (N, features)."""

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["shape"] = a[0].shape
        return a[0].flatten(1)

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        return (d.view(tape["shape"]),)


class Identity(Rule):
    """What does nothing at this point, such as dropout that is off."""

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        return a[0]

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        return (d,)


class Sum(Rule):
    """A residual connection."""

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        return a[0] + a[1]

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        one, other = a_dot
        if one is None or other is None:
            return other if one is None else one
        return one + other

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        return d, d


@dataclass(frozen=True, eq=False)
class Dense(Rule):
    """z = W a + b. Its weight gradient stays an outer product d ⊗ a.

    The tape's `v` are derivatives of the attack's loss with respect to d (N, out), a (N, in) and the
    bias gradient (V, out). They add to the tangents just as a tangent weight would: with
    v = ∂D/∂(d ⊗ a), ∂D/∂d = v a and ∂D/∂a = vᵀ d.
    """

    weight: Tensor
    bias: Tensor | None

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a[0]
        return torch.nn.functional.linear(a[0], self.weight, self.bias)

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        return (d @ self.weight if tape["deep"] else None,)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        rows, _, bias = tape["v"]
        parts = [] if a_dot[0] is None else [a_dot[0] @ self.weight.mT]
        parts += [] if rows is None else [rows]
        if bias is not None:
            parts.append(bias.repeat_interleave(len(tape["d"]) // len(bias), 0))
        return sum(parts[1:], parts[0]) if parts else None

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        columns = tape["v"][1]
        back = d_dot @ self.weight
        return (back if columns is None else back.add_(columns),)
