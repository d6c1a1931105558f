"""How each kind of layer takes part in the four passes of the explicit engine.

An attack needs the gradient with respect to x of ⟨v, ∇_θ L(x)⟩. Two passes give ∇_θ L (forward,
backward); two more give the derivative of the backward pass in the direction v (tangent, second).
Letters: a what enters a layer, z what leaves it, d = dL/dz; a dot over them is `_dot`. A tangent
that is zero everywhere is None. `tape` is the layer's own memory during one evaluation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor

from fedpriv.engine.gradients import Outer
from fedpriv.state import State

Tape = dict[str, Any]
MaybeTensor = Tensor | None


class Rule:
    """One operation; linear ones need only say what `transposed` does.

    A rule with parameters also says how their gradients leave the engine (`gradients`, `named`) and
    how the attack's direction comes back (`directed`). Its parameters belong to all rows, or have a
    leading axis of U sets: the rows are then sorted by set, and every set has the same number of
    them.
    """

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

    def gradients(self, tape: Tape, victims: int) -> tuple[Tensor, ...]:
        """The gradients of the parameters, one per victim, in a form that `named` reads."""
        return ()

    def named(self, names: dict[str, str], raw: Iterator[Tensor]) -> dict[str, Tensor | Outer]:
        """The gradients by the parameters' names; takes as many of `raw` as `gradients` gave."""
        return {}

    def directed(self, tape: Tape, v: Iterator[MaybeTensor]) -> None:
        """Keep the derivatives of the attack's loss with respect to what `gradients` gave."""

    def aim(self, names: dict[str, str], target: State) -> tuple[Tensor, ...]:
        """Observed gradients (V, …) in the form of `gradients`: the transpose of `named`.

        Inner products stay the same.
        """
        return ()

    def products(
        self, tape: Tape, raw: tuple[Tensor, ...], aim: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        """⟨g, target⟩ and ‖g‖² per victim, of the gradients g that `named` makes of `raw`."""
        return inner(raw, aim), inner(raw, raw)

    def direction(
        self,
        tape: Tape,
        raw: tuple[Tensor, ...],
        aim: tuple[Tensor, ...],
        down: Tensor,
        up: Tensor,
    ) -> tuple[Tensor, ...]:
        """The derivatives of down·⟨g, target⟩ + ½·up·‖g‖² with respect to `raw`; both are (V,)."""
        return tuple(
            torch.mul(g, spread(up, g)).addcmul_(a, spread(down, a))
            for g, a in zip(raw, aim, strict=True)
        )

    def picked(self, index: Tensor | int) -> Self:
        """The rule with some of its sets of parameters: those at `index`, or one for all rows."""
        return self


def inner(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> Tensor:
    """⟨one, other⟩ per victim, over tensors (V, …) of the same shapes."""
    terms: list[Tensor] = [
        torch.linalg.vecdot(a.flatten(1), b.flatten(1)) for a, b in zip(one, other, strict=True)
    ]
    return sum(terms[1:], terms[0])


def per_row(values: Tensor, rows: int, own: int) -> Tensor:
    """Parameters with `own` axes for each of `rows` rows: as they are if all rows share them."""
    return values if values.ndim == own else values.repeat_interleave(rows // values.shape[0], 0)


def spread(values: Tensor, like: Tensor) -> Tensor:
    """(V,) with as many axes as `like` (V, …)."""
    return values.view(-1, *[1] * (like.ndim - 1))


def summed(values: Tensor, victims: int) -> Tensor:
    """(V·B, …) -> (V, …): the sum over each victim's samples."""
    return values.view(victims, -1, *values.shape[1:]).sum(1)


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
class AvgPool(Rule):
    """Each output is the mean of a window."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] = (0, 0)
    ceil: bool = False
    padded: bool = True  # whether the padding counts

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a[0]
        if self._halves(a[0]):
            rows, channels, height, width = a[0].shape
            pairs = a[0].reshape(-1, 2 * width) @ _two_by_two(width, a[0])
            return pairs.view(rows, channels, height // 2, width // 2)
        return torch.nn.functional.avg_pool2d(
            a[0], self.kernel, self.stride, self.padding, self.ceil, self.padded
        )

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        if self._halves(tape["a"]):
            width = tape["a"].shape[3]
            return ((d.reshape(-1, width // 2) @ _two_by_two(width, d).T).view(tape["a"].shape),)
        options = (self.kernel, self.stride, self.padding, self.ceil, self.padded, None)
        return (torch.ops.aten.avg_pool2d_backward(d, tape["a"], *options),)

    def _halves(self, a: Tensor) -> bool:
        """Windows of 2 × 2 side by side: torch's own kernel is four times as slow as a product."""
        square = self.kernel == self.stride == (2, 2) and self.padding == (0, 0)
        return square and a.shape[2] % 2 == a.shape[3] % 2 == 0


@cache
def _means(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    one = torch.eye(width // 2, dtype=dtype, device=device).repeat_interleave(2, 0) / 4
    return torch.cat([one, one])


def _two_by_two(width: int, like: Tensor) -> Tensor:
    """(2·width, width/2): two rows of pixels in one -> the means of their 2 × 2 windows."""
    return _means(width, like.dtype, like.device)


@dataclass(frozen=True)
class LinearMap(Rule):
    """Any operation without parameters that is linear in its one input, such as pooling."""

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
        tape["shapes"] = a[0].shape, a[1].shape
        return a[0] + a[1]

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        one, other = a_dot
        if one is None or other is None:
            some = other if one is None else one
            return some if some is None else some.expand(torch.broadcast_shapes(*tape["shapes"]))
        return one + other

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        one, other = tape["shapes"]
        return d.sum_to_size(one), d.sum_to_size(other)


class Product(Rule):
    """One input times the other, such as features and the gate of squeeze-and-excitation."""

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a
        return a[0] * a[1]

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        return self.transposed(tape, d)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        tape["a_dot"] = a_dot
        (one, other), (one_dot, other_dot) = tape["a"], a_dot
        parts = [] if one_dot is None else [one_dot * other]
        parts += [] if other_dot is None else [one * other_dot]
        return sum(parts[1:], parts[0]) if parts else None

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        (one, other), (one_dot, other_dot) = tape["a"], tape["a_dot"]
        first, second = d_dot * other, d_dot * one
        if "d" in tape:
            first = first if other_dot is None else first.addcmul(tape["d"], other_dot)
            second = second if one_dot is None else second.addcmul(tape["d"], one_dot)
        return first.sum_to_size(one.shape), second.sum_to_size(other.shape)

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        one, other = tape["a"]
        return (d * other).sum_to_size(one.shape), (d * one).sum_to_size(other.shape)
