"""The gradients of many victims by explicit passes, equal to the general path and several times faster."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fedpriv.engine.convolution import Convolution
from fedpriv.engine.gradients import Outer, gradients_at
from fedpriv.engine.program import Line, program
from fedpriv.engine.rules import Dense, MaybeTensor, Tape
from fedpriv.state import State

log = logging.getLogger(__name__)


class Loss:
    """What follows the last layer's output z (N, K): the seed of the backward pass, and of its tangent.

    `t` (N, K) is what the loss compares z with.
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
    """L = ⟨z, t⟩: t is the gradient that arrives from layers nobody shows."""

    def seed(self, z: Tensor, t: Tensor, batch: int) -> Tensor:
        return t

    def tangent(self, z: Tensor, t: Tensor, z_dot: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(z_dot), z_dot


@dataclass(frozen=True, eq=False)
class Explicit:
    """One network with one set of weights; x (V, B, …) and t (V, B, K) in, gradients out."""

    lines: list[Line]
    names: tuple[str, ...]
    loss: Loss = CrossEntropy()

    def backbone(self) -> Self | None:
        """All but the last linear layer, for an upstream gradient t (V, B, features)."""
        *rest, last = self.lines
        if not rest or not isinstance(last.rule, Dense):
            return None
        names = tuple(name for name in self.names if name not in last.names.values())
        return type(self)(rest, names, Upstream())

    def gradients_at(self, x: Tensor, t: Tensor) -> dict[str, Tensor | Outer]:
        """As fedpriv.engine.gradients.gradients_at, with linear layers as outer products."""
        return self.output_and_gradients_at(x, t)[1]

    def output_and_gradients_at(
        self, x: Tensor, t: Tensor
    ) -> tuple[Tensor, dict[str, Tensor | Outer]]:
        """What the last layer gives, (V, B, K), and the gradients."""
        raw = iter(_Passes.apply(self, x, t))
        output = next(raw)
        found: dict[str, Tensor | Outer] = {}
        for line in self.lines:
            if isinstance(line.rule, Dense):
                found[line.names["weight"]] = Outer(next(raw), next(raw))
                if line.rule.bias is not None:
                    found[line.names["bias"]] = next(raw)
            elif isinstance(line.rule, Convolution):
                kernel = next(raw)
                if line.unfold is not None:
                    found |= line.unfold(kernel, next(raw))
                    continue
                found[line.names["weight"]] = kernel
                if line.rule.bias is not None:
                    found[line.names["bias"]] = next(raw)
        return output, {name: found[name] for name in self.names}


class _Passes(torch.autograd.Function):
    """Forward: the two passes that give gradients. Backward: the two that differentiate them."""

    @staticmethod
    def forward(ctx: Any, engine: Explicit, x: Tensor, t: Tensor) -> tuple[Tensor, ...]:
        victims, batch = x.shape[:2]
        tapes: list[Tape] = [{"deep": line.deep} for line in engine.lines]
        slots: list[Tensor | None] = [x.flatten(0, 1).contiguous()]
        for line, tape in zip(engine.lines, tapes, strict=True):
            slots.append(line.rule.forward(tape, *_read(slots, line)))
        z = slots[-1]
        assert z is not None
        t = t.flatten(0, 1)
        _pull(engine.lines, tapes, engine.loss.seed(z, t, batch), second=False)
        ctx.set_materialize_grads(False)
        ctx.engine, ctx.tapes, ctx.z, ctx.t = engine, tapes, z, t
        ctx.shape = (victims, batch)
        return z.view(victims, batch, -1), *_outputs(engine.lines, tapes, victims)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, z_bar: MaybeTensor, *v: MaybeTensor
    ) -> tuple[None, MaybeTensor, MaybeTensor]:
        lines, tapes = ctx.engine.lines, ctx.tapes
        victims, batch = ctx.shape
        _directions(lines, tapes, iter(v))
        slots: list[MaybeTensor] = [None]
        for line, tape in zip(lines, tapes, strict=True):
            slots.append(line.rule.tangent(tape, *(slots[slot] for slot in line.reads)))
        z_dot = slots[-1] if slots[-1] is not None else torch.zeros_like(ctx.z)
        d_dot, t_bar = ctx.engine.loss.tangent(ctx.z, ctx.t, z_dot, batch)
        if z_bar is not None:
            d_dot = d_dot + z_bar.flatten(0, 1)
        x_bar = _pull(lines, tapes, d_dot, second=True)
        ctx.tapes = None
        return (
            None,
            None if x_bar is None else x_bar.view(victims, batch, *x_bar.shape[1:]),
            t_bar.view(victims, batch, -1) if ctx.needs_input_grad[2] else None,
        )


def _read(slots: list[Tensor | None], line: Line) -> Iterable[Tensor]:
    return (value for slot in line.reads if (value := slots[slot]) is not None)


def _pull(lines: list[Line], tapes: list[Tape], last: Tensor, second: bool) -> MaybeTensor:
    """The pass from the loss towards x: dL/da, or its tangent in the second one; that of x itself."""
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


def _outputs(lines: list[Line], tapes: list[Tape], victims: int) -> Iterable[Tensor]:
    for line, tape in zip(lines, tapes, strict=True):
        if isinstance(line.rule, Dense):
            rows = tape["d"].view(victims, -1, tape["d"].shape[1])
            yield rows
            yield tape["a"].view(victims, -1, tape["a"].shape[1])
            if line.rule.bias is not None:
                yield rows.sum(1)
        elif isinstance(line.rule, Convolution):
            yield line.rule.weight_gradient(tape, victims)
            if line.rule.bias is not None:
                sums = tape["d"].flatten(2).sum(2)
                yield sums.view(victims, -1, sums.shape[1]).sum(1)


def _directions(lines: list[Line], tapes: list[Tape], v: Iterable[MaybeTensor]) -> None:
    """Give each layer its part of the attack's direction."""
    v = iter(v)
    for line, tape in zip(lines, tapes, strict=True):
        if isinstance(line.rule, Dense):
            rows, columns = (
                part if part is None else part.flatten(0, 1) for part in (next(v), next(v))
            )
            tape["v"] = (rows, columns, next(v) if line.rule.bias is not None else None)
        elif isinstance(line.rule, Convolution):
            kernel = next(v)
            bias = next(v) if line.rule.bias is not None else None
            if kernel is None and bias is not None:
                kernel = bias.new_zeros(len(bias), *line.rule.weight.shape)
            tape["v"] = (kernel, bias)


def explicit_engine(
    model: nn.Module, weights: State, buffers: State, shape: tuple[int, ...]
) -> Explicit | None:
    """The engine for this network, or None if it has a layer without a rule.

    Before it is trusted, one gradient of noise is compared with the general path's.
    """
    lines = program(model, weights, buffers)
    if lines is None:
        return None
    engine = Explicit(lines, tuple(weights))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 1, *shape, generator=generator)
    try:
        with torch.no_grad():
            classes = model(x[0]).shape[-1]
            t = torch.full((1, 1, classes), 1 / classes)
            ours = engine.gradients_at(x, t)
            theirs = gradients_at(model, weights, buffers, True, x, t)
    except (RuntimeError, ValueError, IndexError) as error:
        log.info("the explicit passes do not take inputs of shape %s: %s", shape, error)
        return None
    for name, value in theirs.items():
        found = ours[name]
        found = found.dense() if isinstance(found, Outer) else found
        if not torch.allclose(
            found, value, rtol=1e-2, atol=1e-3 * float(value.abs().max()) + 1e-12
        ):
            log.info("the explicit passes disagree with autograd at '%s'", name)
            return None
    return engine
