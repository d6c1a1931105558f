"""Rules that leave one operation to autograd, and values that the model itself holds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from fedpriv.engine.gradients import Outer
from fedpriv.engine.rules import MaybeTensor, Rule, Tape, per_row, summed
from fedpriv.state import State


@dataclass(frozen=True)
class Local(Rule):
    """Any operation without parameters that treats the rows of its inputs one by one.

    Autograd differentiates this operation alone. With J its Jacobian, the backward pass is b = Jᵀd.
    One derivative of b along a_dot gives both J a_dot, with respect to d, and the change of Jᵀd,
    with respect to a: the second derivative of ⟨d, z⟩ is symmetric.
    """

    function: Callable[..., Tensor]

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        with torch.enable_grad():
            own = [value.detach().requires_grad_() for value in a]
            z = self.function(*own)
        tape["a"], tape["z"] = own, z
        return z.detach()

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        with torch.enable_grad():
            tape["d"] = d.detach().requires_grad_()
            tape["b"] = self._pulled(tape, tape["d"], create_graph=True)
        return tuple(None if value is None else value.detach() for value in tape["b"])

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        tape["more"] = (None,) * len(a_dot)
        if all(value is None for value in a_dot):
            return None
        if "b" not in tape:  # nothing after it reaches the loss
            self.backward(tape, torch.zeros_like(tape["z"]))
        pairs = [
            (b, moved)
            for b, moved in zip(tape["b"], a_dot, strict=True)
            if b is not None and moved is not None and b.requires_grad
        ]
        if not pairs:
            return None
        b, moved = zip(*pairs, strict=True)
        inputs = [tape["d"], *tape["a"]]
        z_dot, *more = torch.autograd.grad(b, inputs, moved, allow_unused=True, retain_graph=True)
        tape["more"] = more
        return z_dot

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        found = self._pulled(tape, d_dot, create_graph=False)
        return tuple(
            one if two is None else two if one is None else one + two
            for one, two in zip(found, tape["more"], strict=True)
        )

    def _pulled(self, tape: Tape, d: Tensor, create_graph: bool) -> tuple[MaybeTensor, ...]:
        if not tape["z"].requires_grad:  # what it gives does not depend on the values it read
            return (None,) * len(tape["a"])
        return torch.autograd.grad(
            tape["z"],
            tape["a"],
            d,
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )


@dataclass(frozen=True, eq=False)
class Held(Rule):
    """A tensor of the model for every row, such as a class token; `learned` if it is a parameter.

    What enters is only counted. The tape's `v` is a tangent of the tensor, (V, …).
    """

    value: Tensor  # its own shape, or (U, …)
    ndim: int
    learned: bool

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["rows"] = rows = len(a[0])
        values = per_row(self.value, rows, self.ndim)
        return values.expand(rows, *self.value.shape[self.value.ndim - self.ndim :])

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        return (None,)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        v = tape.get("v")
        return None if v is None else v.repeat_interleave(tape["rows"] // len(v), 0)

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        return (None,)

    def gradients(self, tape: Tape, victims: int) -> tuple[Tensor, ...]:
        return (summed(tape["d"], victims),) if self.learned else ()

    def named(self, names: dict[str, str], raw: Iterator[Tensor]) -> dict[str, Tensor | Outer]:
        return {names["value"]: next(raw)} if self.learned else {}

    def directed(self, tape: Tape, v: Iterator[MaybeTensor]) -> None:
        tape["v"] = next(v) if self.learned else None

    def aim(self, names: dict[str, str], target: State) -> tuple[Tensor, ...]:
        return (target[names["value"]],) if self.learned else ()

    def picked(self, index: Tensor | int) -> Self:
        return replace(self, value=self.value[index])
