"""GroupNorm, LayerNorm and BatchNorm: normalising without parameters, then a scale and a shift."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from fedpriv.engine.gradients import Outer
from fedpriv.engine.rules import MaybeTensor, Rule, Tape, per_row, summed
from fedpriv.state import State

Shape = Callable[[torch.Size, int], tuple[int, ...]]  # the shape of a, number of victims -> a view


@dataclass(frozen=True)
class Normalise(Rule):
    """n = (a − μ)/σ, with mean and deviation over `dims` of a view of a.

    Written with m(·) for the mean over `dims`: the backward pass gives b = (d − m(d) − n m(n d))/σ.
    Along a tangent, σ changes by m(n a_dot), and n by the same formula as b with a_dot in the place
    of d.
    """

    view: Shape
    dims: tuple[int, ...]
    eps: float

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["shape"] = a[0].shape
        seen = a[0].reshape(self.view(a[0].shape, tape["victims"]))
        var, mean = torch.var_mean(seen, self.dims, correction=0, keepdim=True)
        rate = (var + self.eps).rsqrt()
        n = (seen - mean).mul_(rate)
        tape["n"], tape["rate"] = n, rate
        return n.view(tape["shape"])

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        n = tape["n"]
        tape["d"] = d.reshape(n.shape)
        tape["nd"] = self._mean(n * tape["d"])
        tape["b"] = self._cleared(tape, tape["d"], tape["nd"])
        return (tape["b"].view(tape["shape"]),)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        if a_dot[0] is None:
            return None
        moved = a_dot[0].reshape(tape["n"].shape)
        tape["change"] = self._mean(tape["n"] * moved)
        tape["n_dot"] = self._cleared(tape, moved, tape["change"])
        found: MaybeTensor = tape["n_dot"].view(tape["shape"])
        return found

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        n, rate = tape["n"], tape["rate"]
        d_dot = d_dot.reshape(n.shape)
        if "n_dot" not in tape or "d" not in tape:
            return (self._cleared(tape, d_dot, self._mean(n * d_dot)).view(tape["shape"]),)
        n_dot = tape["n_dot"]
        both = self._mean(torch.addcmul(n_dot * tape["d"], n, d_dot))
        out = self._cleared(tape, d_dot, both).addcmul_(n_dot, -tape["nd"] * rate)
        return (out.addcmul_(tape["b"], -tape["change"] * rate).view(tape["shape"]),)

    def _mean(self, values: Tensor) -> Tensor:
        return values.mean(self.dims, keepdim=True)

    def _cleared(self, tape: Tape, values: Tensor, along: Tensor) -> Tensor:
        """(values − their mean − n · along)/σ."""
        return (values - self._mean(values)).addcmul_(tape["n"], -along).mul_(tape["rate"])


@dataclass(frozen=True, eq=False)
class Standardise(Rule):
    """n = (a − mean)/deviation by kept statistics, (C,) or (U, C): BatchNorm in eval mode."""

    mean: Tensor
    deviation: Tensor

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        return (a[0] - self._channels(self.mean, a[0])) / self._channels(self.deviation, a[0])

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        return None if a_dot[0] is None else self.transposed(tape, a_dot[0])[0]

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        return (d / self._channels(self.deviation, d),)

    def picked(self, index: Tensor | int) -> Self:
        return replace(self, mean=self.mean[index], deviation=self.deviation[index])

    def _channels(self, values: Tensor, a: Tensor) -> Tensor:
        return per_row(values, len(a), 1).view(-1, a.shape[1], *[1] * (a.ndim - 2))


@dataclass(frozen=True, eq=False)
class Scaled(Rule):
    """z = γ n + β, one of each per channel (axis 1), or per element of the `trailing` axes.

    γ and β are flat, (C,) or (U, C). The tape's `v` are a tangent γ and β, (V, C).
    """

    gamma: Tensor
    beta: Tensor | None
    shape: tuple[int, ...]  # of one parameter
    trailing: bool

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["n"], tape["whole"] = self._view(a[0]), a[0].shape
        z = tape["n"] * self._rows(self.gamma, len(a[0]))
        if self.beta is not None:
            z += self._rows(self.beta, len(a[0]))
        found: Tensor = z.view(a[0].shape)
        return found

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = self._view(d)
        return (
            (tape["d"] * self._rows(self.gamma, len(d))).view(d.shape) if tape["deep"] else None,
        )

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        parts = []
        if a_dot[0] is not None:
            parts.append(self._view(a_dot[0]) * self._rows(self.gamma, len(a_dot[0])))
        gamma, beta = tape["v"]
        if gamma is not None:
            parts.append(tape["n"] * self._rows(gamma, len(tape["n"])))
        if beta is not None:
            parts.append(self._rows(beta, len(tape["n"])).expand_as(tape["n"]))
        return sum(parts[1:], parts[0]).view(tape["whole"]) if parts else None

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        back = self._view(d_dot) * self._rows(self.gamma, len(d_dot))
        gamma = tape["v"][0]
        if gamma is not None:
            back.addcmul_(tape["d"], self._rows(gamma, len(d_dot)))
        return (back.view(d_dot.shape),)

    def gradients(self, tape: Tape, victims: int) -> tuple[Tensor, ...]:
        gamma = summed((tape["d"] * tape["n"]).sum(self._rest), victims)
        return (
            (gamma,) if self.beta is None else (gamma, summed(tape["d"].sum(self._rest), victims))
        )

    def named(self, names: dict[str, str], raw: Iterator[Tensor]) -> dict[str, Tensor | Outer]:
        roles = ("gamma",) if self.beta is None else ("gamma", "beta")
        return {names[role]: next(raw).unflatten(1, self.shape) for role in roles}

    def directed(self, tape: Tape, v: Iterator[MaybeTensor]) -> None:
        tape["v"] = (next(v), None if self.beta is None else next(v))

    def aim(self, names: dict[str, str], target: State) -> tuple[Tensor, ...]:
        roles = ("gamma",) if self.beta is None else ("gamma", "beta")
        return tuple(target[names[role]].flatten(1) for role in roles)

    def picked(self, index: Tensor | int) -> Self:
        beta = None if self.beta is None else self.beta[index]
        return replace(self, gamma=self.gamma[index], beta=beta)

    @property
    def _rest(self) -> int:
        return 1 if self.trailing else 2

    def _view(self, a: Tensor) -> Tensor:
        """(N, C, rest), or (N, rest, C)."""
        if self.trailing:
            return a.reshape(len(a), -1, self.gamma.shape[-1])
        return a.reshape(len(a), a.shape[1], -1)

    def _rows(self, values: Tensor, rows: int) -> Tensor:
        return per_row(values, rows, 1).unsqueeze(-2 if self.trailing else -1)
