"""Activations: each element of what leaves depends on one element of what enters."""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedpriv.engine.rules import MaybeTensor, Rule, Tape


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
        found: MaybeTensor = tape["slope"] * a_dot[0]
        return found

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
class Piecewise(Rule):
    """An activation of straight pieces: its derivative is a mask of factors, the second zero."""

    value: Callable[[Tensor], Tensor]
    masked: Callable[[Tensor, Tensor], Tensor]  # d, a -> d · dz/da

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a[0]
        return self.value(a[0])

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        return None if a_dot[0] is None else self.masked(a_dot[0], tape["a"])

    def transposed(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        return (self.masked(d, tape["a"]),)


@dataclass(frozen=True)
class Curved(Rule):
    """An activation whose derivatives are functions of its input."""

    value: Callable[[Tensor], Tensor]
    slopes: Callable[[Tensor], tuple[Tensor, Tensor]]  # a -> dz/da, d²z/da²

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a[0]
        return self.value(a[0])

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        return (self._slopes(tape)[0] * d,)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        tape["a_dot"] = a_dot[0]
        return None if a_dot[0] is None else self._slopes(tape)[0] * a_dot[0]

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        slope, bend = self._slopes(tape)
        out = slope * d_dot
        if tape["a_dot"] is not None and "d" in tape:
            out.addcmul_(bend * tape["a_dot"], tape["d"])
        return (out,)

    def _slopes(self, tape: Tape) -> tuple[Tensor, Tensor]:
        if "slopes" not in tape:
            tape["slopes"] = self.slopes(tape["a"])
        found: tuple[Tensor, Tensor] = tape["slopes"]
        return found


def _silu(a: Tensor) -> tuple[Tensor, Tensor]:
    s = torch.sigmoid(a)
    rise = s * (1 - s)
    return s + a * rise, rise * (2 + a * (1 - 2 * s))


def _gelu(a: Tensor) -> tuple[Tensor, Tensor]:
    density = torch.exp(-0.5 * a.square()) / sqrt(2 * pi)
    below = 0.5 * (1 + torch.erf(a / sqrt(2)))
    return below + a * density, density * (2 - a.square())


def _gelu_by_tanh(a: Tensor) -> tuple[Tensor, Tensor]:
    c = sqrt(2 / pi)
    t = torch.tanh(c * (a + 0.044715 * a**3))
    u1, u2, flat = c * (1 + 3 * 0.044715 * a.square()), c * 6 * 0.044715 * a, 1 - t.square()
    return 0.5 * (1 + t + a * flat * u1), flat * u1 + 0.5 * a * flat * (u2 - 2 * t * u1.square())


def _hardswish(a: Tensor) -> tuple[Tensor, Tensor]:
    inside = (a.abs() < 3).to(a.dtype)
    return torch.where(a >= 3, torch.ones_like(a), inside * (2 * a + 3) / 6), inside / 3


def _elu(a: Tensor) -> tuple[Tensor, Tensor]:
    below = torch.where(a > 0, torch.zeros_like(a), a.clamp_max(0).exp())
    return below + (a > 0), below


def leaky(slope: float) -> Rule:
    """ReLU that lets a part of what is negative pass."""
    return Piecewise(
        lambda a: F.leaky_relu(a, slope),
        lambda d, a: torch.ops.aten.leaky_relu_backward(d, a, slope, False),
    )


def clipped(low: float, high: float) -> Rule:
    """Hardtanh; ReLU6 is the one between 0 and 6."""
    return Piecewise(
        lambda a: F.hardtanh(a, low, high),
        lambda d, a: torch.ops.aten.hardtanh_backward(d, a, low, high),
    )


RELU, RELU6 = Rectifier(), clipped(0.0, 6.0)
SILU, GELU = Curved(F.silu, _silu), Curved(F.gelu, _gelu)
GELU_BY_TANH = Curved(lambda a: F.gelu(a, approximate="tanh"), _gelu_by_tanh)
HARDSWISH, ELU = Curved(F.hardswish, _hardswish), Curved(F.elu, _elu)
HARDSIGMOID = Piecewise(
    lambda a: F.relu6(a + 3) / 6,
    lambda d, a: torch.ops.aten.hardtanh_backward(d, a, -3.0, 3.0) / 6,
)


def activation(module: nn.Module) -> Rule | None:
    """The rule of an activation, if there is one."""
    match module:
        case nn.ReLU6():  # a kind of Hardtanh for torch
            return RELU6
        case nn.Hardtanh():
            return clipped(module.min_val, module.max_val)
        case nn.LeakyReLU():
            return leaky(module.negative_slope)
        case nn.GELU():
            return GELU if module.approximate == "none" else GELU_BY_TANH
        case nn.ELU():
            return ELU if module.alpha == 1 else None
    plain = {
        nn.ReLU: RELU,
        nn.Sigmoid: SIGMOID,
        nn.Tanh: TANH,
        nn.SiLU: SILU,
        nn.Hardswish: HARDSWISH,
        nn.Hardsigmoid: HARDSIGMOID,
    }
    return next((rule for kind, rule in plain.items() if isinstance(module, kind)), None)
