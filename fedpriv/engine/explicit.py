"""The gradients of many victims by explicit passes: equal to the general path, and faster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedpriv.engine.dense import Dense
from fedpriv.engine.gradients import Outer
from fedpriv.engine.lines import Line
from fedpriv.engine.rules import MaybeTensor, Tape


class Loss:
    """What follows the last layer's output z (N, K).

    It gives the seed of the backward pass, and of its tangent. `t` (N, K) is what the loss compares
    z with.
    """

    def seed(self, z: Tensor, t: Tensor, batch: int) -> Tensor:
        """dL/dz, the mean over a victim's batch."""
        raise NotImplementedError

    def tangent(self, z: Tensor, t: Tensor, z_dot: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        """The seed's tangent, and the derivative of ⟨dL/dz, z_dot⟩ with respect to t."""
        raise NotImplementedError


class CrossEntropy(Loss):
    """t are probabilities."""

    def seed(self, z: Tensor, t: Tensor, batch: int) -> Tensor:
        return (z.softmax(1) * t.sum(1, keepdim=True) - t) / batch

    def tangent(self, z: Tensor, t: Tensor, z_dot: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        chances = z.softmax(1)
        mean = (chances * z_dot).sum(1, keepdim=True)
        d_dot = chances * (z_dot - mean) * t.sum(1, keepdim=True) / batch
        return d_dot, (mean - z_dot) / batch


class Upstream(Loss):
    """L = ⟨z, t⟩: t is the upstream gradient dL/dz."""

    def seed(self, z: Tensor, t: Tensor, batch: int) -> Tensor:
        return t

    def tangent(self, z: Tensor, t: Tensor, z_dot: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(z_dot), z_dot


@dataclass(frozen=True, eq=False)
class Explicit:
    """One network; x (V, B, …) and t (V, B, K) in, gradients out.

    `which` (V,) says which set of weights each victim's model has; None: all have the same weights.
    """

    lines: list[Line]
    names: tuple[str, ...]
    loss: Loss = CrossEntropy()
    which: Tensor | None = None

    def rows(self, index: Tensor) -> Self:
        """The engine of some of the victims."""
        return self if self.which is None else replace(self, which=self.which[index])

    def backbone(self) -> Self | None:
        """All but the last linear layer, for an upstream gradient t (V, B, features)."""
        *rest, last = self.lines
        if not rest or not isinstance(last.rule, Dense):
            return None
        names = tuple(name for name in self.names if name not in last.names.values())
        return replace(self, lines=rest, names=names, loss=Upstream())

    def gradients_at(self, x: Tensor, t: Tensor) -> dict[str, Tensor | Outer]:
        """As fedpriv.engine.gradients.gradients_at, with linear layers as outer products."""
        return self.output_and_gradients_at(x, t)[1]

    def output_and_gradients_at(
        self, x: Tensor, t: Tensor
    ) -> tuple[Tensor, dict[str, Tensor | Outer]]:
        """What the last layer gives, (V, B, K), and the gradients."""
        lines, order = self._arranged
        if order is not None:
            x, t = x[order], t[order]
        raw = iter(_Passes.apply(lines, self.loss, x, t))
        output = next(raw)
        found: dict[str, Tensor | Outer] = {}
        for line in lines:
            found |= line.rule.named(line.names, raw)
        if order is not None:
            back = order.argsort()
            output = output[back]
            found = {name: values[back] for name, values in found.items()}
        return output, {name: found[name] for name in self.names}

    @cached_property
    def _arranged(self) -> tuple[list[Line], Tensor | None]:
        """The lines with the weights of these victims, and the order of victims that they need.

        Victims with the same weights stand together, and pass as one group of a convolution. Where
        the groups would have unequal sizes every victim is one of its own.
        """
        if self.which is None:
            return self.lines, None
        sets, counts = self.which.unique(return_counts=True)
        if len(sets) == 1:
            return _picked(self.lines, int(sets[0])), None
        if (counts != counts[0]).any():
            return _picked(self.lines, self.which), None
        order = self.which.argsort(stable=True)
        sorted_already = torch.equal(order, torch.arange(len(order), device=order.device))
        return _picked(self.lines, sets), None if sorted_already else order


def _picked(lines: list[Line], index: Tensor | int) -> list[Line]:
    return [replace(line, rule=line.rule.picked(index)) for line in lines]


class Passed:
    """The two passes that give gradients; `along` runs the two that differentiate them, once."""

    def __init__(self, lines: list[Line], loss: Loss, x: Tensor, t: Tensor) -> None:
        self.lines, self.loss, self.t = lines, loss, t.flatten(0, 1)
        self.victims, self.batch = x.shape[:2]
        self.tapes: list[Tape] = [{"deep": line.deep, "victims": len(x)} for line in lines]
        slots: list[Tensor | None] = [x.flatten(0, 1).contiguous()]
        for line, tape in zip(lines, self.tapes, strict=True):
            slots.append(line.rule.forward(tape, *_read(slots, line)))
        z = slots[-1]
        assert z is not None
        self.z = z
        _pull(lines, self.tapes, loss.seed(z, self.t, self.batch), second=False)
        self.raw = [
            line.rule.gradients(tape, self.victims)
            for line, tape in zip(lines, self.tapes, strict=True)
        ]

    def along(
        self, v: Iterator[MaybeTensor], z_bar: MaybeTensor = None
    ) -> tuple[MaybeTensor, Tensor]:
        """The derivatives of ⟨v, gradients⟩ + ⟨z_bar, z⟩ with respect to x and t."""
        lines, tapes = self.lines, self.tapes
        for line, tape in zip(lines, tapes, strict=True):
            line.rule.directed(tape, v)
        slots: list[MaybeTensor] = [None]
        for line, tape in zip(lines, tapes, strict=True):
            slots.append(line.rule.tangent(tape, *(slots[slot] for slot in line.reads)))
        z_dot = slots[-1] if slots[-1] is not None else torch.zeros_like(self.z)
        d_dot, t_bar = self.loss.tangent(self.z, self.t, z_dot, self.batch)
        if z_bar is not None:
            d_dot = d_dot + z_bar.flatten(0, 1)
        x_bar = _pull(lines, tapes, d_dot, second=True)
        shape = (self.victims, self.batch)
        if x_bar is not None:
            x_bar = x_bar.view(*shape, *x_bar.shape[1:])
        return x_bar, t_bar.view(*shape, -1)


class _Passes(torch.autograd.Function):
    """Forward: the two passes that give gradients. Backward: the two that differentiate them."""

    @staticmethod
    def forward(
        ctx: Any, lines: list[Line], loss: Loss, x: Tensor, t: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.passed = passed = Passed(lines, loss, x, t)
        output = passed.z.view(passed.victims, passed.batch, -1)
        return output, *(value for raw in passed.raw for value in raw)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, z_bar: MaybeTensor, *v: MaybeTensor
    ) -> tuple[None, None, MaybeTensor, MaybeTensor]:
        x_bar, t_bar = ctx.passed.along(iter(v), z_bar)
        ctx.passed = None
        return None, None, x_bar, t_bar if ctx.needs_input_grad[3] else None


def _read(slots: list[Tensor | None], line: Line) -> Iterable[Tensor]:
    return (value for slot in line.reads if (value := slots[slot]) is not None)


def _pull(lines: list[Line], tapes: list[Tape], last: Tensor, second: bool) -> MaybeTensor:
    """The pass from the loss towards x: dL/da, and dL/dx at its end.

    The second pass gives their tangents.
    """
    waiting: dict[int, Tensor] = {len(lines): last}
    for index in range(len(lines) - 1, -1, -1):
        line, tape = lines[index], tapes[index]
        d = waiting.pop(index + 1, None)
        if d is None:
            continue
        back = line.rule.second(tape, d) if second else line.rule.backward(tape, d)
        for slot, part in zip(line.reads, back, strict=True):
            if part is not None and (second or slot):
                waiting[slot] = waiting[slot] + part if slot in waiting else part
        if second:
            tape.clear()
    return waiting.get(0)
