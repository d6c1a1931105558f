"""Layers whose functions keep what came in and what came back, and no gradient of the batch.

Opacus' hooks let autograd compute the gradient of the whole batch as well, which nobody needs, and
unfold the input of every convolution. Here the gradient of a convolution for every sample is one
convolution in groups. That takes hardly longer than the gradient of the batch.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fedpriv.clients.protection.each import Outer, Whole
from fedpriv.engine.columns import unfolded

GROUPS = 32  # samples of one convolution in groups: more are no faster
FEW, FEW_OUT = 3, 32  # channels up to which products of columns are faster
COLUMNS = 8  # samples whose columns stay in the cache
Keep = Callable[[Whole | Outer], None]


class Kept(torch.autograd.Function):
    """A layer's function whose parameters get no gradient of the batch."""

    @staticmethod
    def forward(ctx: Any, rule: "Rule", keep: Keep, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.rule, ctx.keep, ctx.parameters = rule, keep, parameters
        ctx.save_for_backward(x)
        return rule.forward(x, *parameters)

    @staticmethod
    def backward(ctx: Any, *back: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        x, d = x.detach(), back[0].contiguous()  # what is kept must not hold the graph, nor itself
        for found in ctx.rule.gradients(x, d, *ctx.parameters):
            if found.parameter.requires_grad:
                ctx.keep(found)
        own = ctx.rule.backward(x, d, *ctx.parameters) if ctx.needs_input_grad[2] else None
        return None, None, own, *[None] * len(ctx.parameters)


class Rule:
    def forward(self, x: Tensor, *parameters: Any) -> Tensor:
        raise NotImplementedError

    def backward(self, x: Tensor, d: Tensor, *parameters: Any) -> Tensor:
        """What comes back to x, from what comes back to the output."""
        raise NotImplementedError

    def gradients(self, x: Tensor, d: Tensor, *parameters: Any) -> Iterable[Whole | Outer]:
        """Those of every sample for each parameter; d is of a sum over samples."""
        raise NotImplementedError


class Linear(Rule):
    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.linear(x, weight, bias)

    def backward(self, x: Tensor, d: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
        return d @ weight

    def gradients(
        self, x: Tensor, d: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Iterable[Whole | Outer]:
        count = len(x)
        if x.dim() == 2:
            yield Outer(weight, x, d)
        else:
            places, back = x.flatten(1, -2), d.flatten(1, -2)
            yield Whole(weight, count, lambda part: back[part].mT @ places[part])
        if bias is not None:
            own = d.flatten(1, -2).sum(1) if d.dim() > 2 else d
            yield Whole(bias, count, lambda part: own[part])


@dataclass(frozen=True)
class Convolution(Rule):
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        options = (self.stride, self.padding, self.dilation)
        return functional.conv2d(x, weight, bias, *options, self.groups)

    def _backward(
        self, x: Tensor, d: Tensor, weight: Tensor, groups: int, data: bool
    ) -> tuple[Tensor, Tensor]:
        options = (self.stride, self.padding, self.dilation, False, (0, 0), groups)
        found: tuple[Tensor, Tensor] = torch.ops.aten.convolution_backward(
            d, x, weight, None, *options, (data, not data, False)
        )[:2]
        return found

    def backward(self, x: Tensor, d: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
        return self._backward(x, d, weight, self.groups, True)[0]

    def gradients(
        self, x: Tensor, d: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Iterable[Whole | Outer]:
        by_columns = self.groups == 1 and x.shape[1] <= FEW and len(weight) <= FEW_OUT
        few, size = (self._by_columns, COLUMNS) if by_columns else (self._in_groups, GROUPS)

        def each(part: slice) -> Tensor:
            starts = range(*part.indices(len(x)))[::size]
            ends = [min(start + size, part.indices(len(x))[1]) for start in starts]
            found = [few(x[a:b], d[a:b], weight) for a, b in zip(starts, ends, strict=True)]
            return torch.cat(found)

        yield Whole(weight, len(x), each)
        if bias is not None:
            own = d.flatten(2).sum(2)
            yield Whole(bias, len(x), lambda part: own[part])

    def _in_groups(self, x: Tensor, d: Tensor, weight: Tensor) -> Tensor:
        """Samples as groups of one convolution, each with a kernel of its own."""
        count = len(x)
        kernel = weight.new_empty(()).expand(count * len(weight), *weight.shape[1:])
        x, d = (values.reshape(1, -1, *values.shape[2:]) for values in (x, d))
        found = self._backward(x, d, kernel, count * self.groups, False)[1]
        return found.view(count, *weight.shape)

    def _by_columns(self, x: Tensor, d: Tensor, weight: Tensor) -> Tensor:
        """A product of matrices for every sample: faster where there are few channels."""
        window = (weight.shape[2], weight.shape[3])
        columns = unfolded(x, window, pair(self.stride), pair(self.padding), pair(self.dilation))
        return torch.bmm(d.flatten(2), columns.mT).view(-1, *weight.shape)


@dataclass
class Norm(Rule):
    """y = w x̂ + b, where x̂ has mean 0 and variance 1; of a GroupNorm or a LayerNorm."""

    eps: float
    stats: tuple[Tensor, Tensor] = field(init=False)

    def normal(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def summed(self, d: Tensor, weight: Tensor) -> Tensor:
        """Over all places of a sample that one weight serves."""
        raise NotImplementedError

    def gradients(
        self, x: Tensor, d: Tensor, weight: Tensor, bias: Tensor
    ) -> Iterable[Whole | Outer]:
        scales, shifts = self.summed(d * self.normal(x), weight), self.summed(d, weight)
        yield Whole(weight, len(x), lambda part: scales[part])
        yield Whole(bias, len(x), lambda part: shifts[part])


@dataclass
class GroupNorm(Norm):
    groups: int

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        count, channels = x.shape[:2]
        found, mean, scale = torch.native_group_norm(
            x, weight, bias, count, channels, math.prod(x.shape[2:]), self.groups, self.eps
        )
        self.stats = mean, scale
        return found

    def backward(self, x: Tensor, d: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        size = math.prod(x.shape[2:])
        found: Tensor = torch.ops.aten.native_group_norm_backward(
            d, x, *self.stats, weight, *x.shape[:2], size, self.groups, (True, False, False)
        )[0]
        return found

    def normal(self, x: Tensor) -> Tensor:
        return functional.group_norm(x, self.groups, eps=self.eps)

    def summed(self, d: Tensor, weight: Tensor) -> Tensor:
        return d.flatten(2).sum(2) if d.dim() > 2 else d


@dataclass
class LayerNorm(Norm):
    shape: tuple[int, ...]

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        found, mean, scale = torch.native_layer_norm(x, self.shape, weight, bias, self.eps)
        self.stats = mean, scale
        return found

    def backward(self, x: Tensor, d: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        found: Tensor = torch.ops.aten.native_layer_norm_backward(
            d, x, self.shape, *self.stats, weight, bias, (True, False, False)
        )[0]
        return found

    def normal(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.shape, eps=self.eps)

    def summed(self, d: Tensor, weight: Tensor) -> Tensor:
        return d.reshape(len(d), -1, *weight.shape).sum(1)


def pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


# How each function of torch is called: the rule, what comes in, and its parameters.
Called = tuple[Rule, Tensor, tuple[Any, ...]]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Called:
    return Linear(), input, (weight, bias)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Called | None:
    if isinstance(padding, str) or input.dim() != 4:
        return None
    rule = Convolution(pair(stride), pair(padding), pair(dilation), groups)
    return rule, input, (weight, bias)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Called | None:
    known = weight is not None and bias is not None
    return (GroupNorm(eps, num_groups), input, (weight, bias)) if known else None


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Called | None:
    known = weight is not None and bias is not None
    return (LayerNorm(eps, tuple(normalized_shape)), input, (weight, bias)) if known else None


RULES: dict[Any, Callable[..., Called | None]] = {
    functional.linear: linear,
    functional.conv2d: conv2d,
    functional.group_norm: group_norm,
    functional.layer_norm: layer_norm,
}
