"""Linear layers: one matrix for all rows, or one per set of rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from fedpriv.engine.gradients import Outer
from fedpriv.engine.rules import MaybeTensor, Rule, Tape, summed
from fedpriv.state import State


@dataclass(frozen=True, eq=False)
class Dense(Rule):
    """z = W a + b. Its weight gradient stays an outer product d ⊗ a.

    The tape's `v` are derivatives of the attack's loss with respect to d (N, out), a (N, in) and
    the bias gradient (V, out). They add to the tangents just as a tangent weight would: with v =
    ∂D/∂(d ⊗ a), ∂D/∂d = v a and ∂D/∂a = vᵀ d. A row is one sample, or one token of a sample.
    """

    weight: Tensor  # (out, in), or (U, out, in)
    bias: Tensor | None

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["shape"] = a[0].shape[:-1]
        tape["a"] = a[0].flatten(0, -2)
        if self.weight.ndim == 2:
            z = torch.nn.functional.linear(tape["a"], self.weight, self.bias)
        else:
            z = self._times(tape["a"], self.weight.mT)
            if self.bias is not None:
                z += self.bias.repeat_interleave(z.shape[0] // self.bias.shape[0], 0)
        return z.reshape(*tape["shape"], -1)

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d.flatten(0, -2)
        if not tape["deep"]:
            return (None,)
        return (self._times(tape["d"], self.weight).reshape(*tape["shape"], -1),)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        rows, _, bias = tape["v"]
        parts = [] if a_dot[0] is None else [self._times(a_dot[0].flatten(0, -2), self.weight.mT)]
        parts += [] if rows is None else [rows]
        if bias is not None:
            parts.append(bias.repeat_interleave(tape["d"].shape[0] // bias.shape[0], 0))
        return sum(parts[1:], parts[0]).reshape(*tape["shape"], -1) if parts else None

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        columns = tape["v"][1]
        back = self._times(d_dot.flatten(0, -2), self.weight)
        return ((back if columns is None else back.add_(columns)).reshape(*tape["shape"], -1),)

    def gradients(self, tape: Tape, victims: int) -> tuple[Tensor, ...]:
        d, a = tape["d"], tape["a"]
        rows = d.view(victims, -1, d.shape[1])
        found = (rows, a.view(victims, -1, a.shape[1]))
        return found if self.bias is None else (*found, summed(d, victims))

    def named(self, names: dict[str, str], raw: Iterator[Tensor]) -> dict[str, Tensor | Outer]:
        found: dict[str, Tensor | Outer] = {names["weight"]: Outer(next(raw), next(raw))}
        return found if self.bias is None else found | {names["bias"]: next(raw)}

    def directed(self, tape: Tape, v: Iterator[MaybeTensor]) -> None:
        rows, columns = (
            part if part is None else part.flatten(0, 1) for part in (next(v), next(v))
        )
        tape["v"] = (rows, columns, next(v) if self.bias is not None else None)

    def aim(self, names: dict[str, str], target: State) -> tuple[Tensor, ...]:
        found = (target[names["weight"]],)
        return found if self.bias is None else (*found, target[names["bias"]])

    def products(
        self, tape: Tape, raw: tuple[Tensor, ...], aim: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        rows, columns = raw[:2]
        tape["pulled"] = torch.bmm(rows, aim[0])  # the largest product: `direction` takes it too
        dot, own = (tape["pulled"] * columns).sum((1, 2)), Outer(rows, columns).square()
        if self.bias is None:
            return dot, own
        more = super().products(tape, raw[2:], aim[1:])
        return dot + more[0], own + more[1]

    def direction(
        self,
        tape: Tape,
        raw: tuple[Tensor, ...],
        aim: tuple[Tensor, ...],
        down: Tensor,
        up: Tensor,
    ) -> tuple[Tensor, ...]:
        rows, columns = raw[:2]
        up_, down_ = up.view(-1, 1, 1), down.view(-1, 1, 1)
        found = []
        for one, two, pulled in (
            (rows, columns, torch.bmm(columns, aim[0].mT)),
            (columns, rows, tape["pulled"]),
        ):
            gram = torch.bmm(two, two.mT) * up_
            found.append(torch.bmm(gram, one).addcmul_(pulled, down_))
        return *found, *super().direction(tape, raw[2:], aim[1:], down, up)

    def picked(self, index: Tensor | int) -> Self:
        bias = None if self.bias is None else self.bias[index]
        return replace(self, weight=self.weight[index], bias=bias)

    def _times(self, rows: Tensor, matrix: Tensor) -> Tensor:
        """(N, i) times (i, j), or times each set's own (U, i, j)."""
        if matrix.ndim == 2:
            return rows @ matrix
        sets = rows.view(matrix.shape[0], -1, rows.shape[1])
        return torch.bmm(sets, matrix).flatten(0, 1)
