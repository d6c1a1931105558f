"""Convolutions with one kernel for all samples, one per set of samples, and one per victim."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from fedpriv.engine.columns import folded_back, kernel_gradients, pulled_back, times_own, unfolded
from fedpriv.engine.folding import Unfold
from fedpriv.engine.gradients import Outer
from fedpriv.engine.rules import MaybeTensor, Rule, Tape, summed
from fedpriv.state import State

Pair = tuple[int, int]

# Matrix products of columns beat the library's kernels where these are slow: few channels, or one
# sample.
_FEW_CHANNELS, _FEW_ROWS, _CHANNELS_OF_FEW = 6, 2, 16
_LARGE_WINDOW = 16  # elements, from which columns are folded row by row of the window


@dataclass(frozen=True)
class Geometry:
    """Stride, padding and dilation; groups are those of the layer itself."""

    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int

    @property
    def strided(self) -> bool:
        return self.stride != (1, 1) and self.groups == 1

    def forward(self, a: Tensor, weight: Tensor, bias: Tensor | None, groups: int) -> Tensor:
        return conv2d(a, weight, bias, self.stride, self.padding, self.dilation, groups)

    def gradients(
        self, d: Tensor, a: Tensor, weight: Tensor, groups: int, data: bool
    ) -> tuple[Tensor, Tensor]:
        """(dL/da, dL/dweight), of which only the one asked for is computed."""
        options = (self.stride, self.padding, self.dilation, False, (0, 0), groups)
        wanted = (data, not data, False)
        found: tuple[Tensor, Tensor] = torch.ops.aten.convolution_backward(
            d, a, weight, None, *options, wanted
        )[:2]
        return found


def side_by_side(values: Tensor, victims: int) -> Tensor:
    """(V·B, C, …) -> (B, V·C, …): the victims as groups of one convolution."""
    if len(values) == victims:
        return values.reshape(1, -1, *values.shape[2:])
    split = values.view(victims, -1, *values.shape[1:])
    return split.transpose(0, 1).flatten(1, 2)


def in_rows(values: Tensor, victims: int) -> Tensor:
    """(B, V·C, …) -> (V·B, C, …), the inverse of `side_by_side`."""
    if len(values) == 1:
        return values.view(victims, -1, *values.shape[2:])
    split = values.view(len(values), victims, -1, *values.shape[2:])
    return split.transpose(0, 1).flatten(0, 1)


@dataclass(frozen=True, eq=False)
class Convolution(Rule):
    """z = W ∗ a + b; the tape's `v` is a tangent kernel (V, out, in, …) and bias (V, out).

    `weight` is (out, in, …), or (U, out, in, …) with one kernel per set of rows. `unfold` is there
    if a BatchNorm was folded in.
    """

    weight: Tensor
    bias: Tensor | None
    geometry: Geometry
    unfold: Unfold | None = None

    @property
    def kernel_shape(self) -> torch.Size:
        return self.weight.shape[-4:]

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a[0]
        if not self._by_columns(a[0]):
            return self._passed(a[0], self.bias)
        geometry, window = self.geometry, self._window
        tape["columns"] = columns = unfolded(
            a[0], window, geometry.stride, geometry.padding, geometry.dilation
        )
        if len(a[0]) > _FEW_ROWS:
            return self._passed(a[0], self.bias)
        z = torch.matmul(self.weight.flatten(1), columns)
        if self.bias is not None:
            z += self.bias.unsqueeze(1)
        return z.view(len(z), -1, *self._size_behind(a[0]))

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        return (self._pulled(d, tape["a"]) if tape["deep"] else None,)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        kernel, bias = tape["v"]
        geometry, z_dot = self.geometry, None
        if kernel is not None and "columns" in tape:
            z_dot = times_own(kernel.flatten(2), tape["columns"])
            if bias is not None:
                z_dot += bias.repeat_interleave(len(z_dot) // len(bias), 0).unsqueeze(2)
            z_dot = z_dot.view(len(z_dot), -1, *self._size_behind(tape["a"]))
        elif kernel is not None:
            victims = len(kernel)
            kernels = kernel.flatten(0, 1)
            groups = victims * geometry.groups
            biases = None if bias is None else bias.flatten()
            a = side_by_side(tape["a"], victims)
            z_dot = in_rows(geometry.forward(a, kernels, biases, groups), victims)
        if a_dot[0] is not None:
            own = self._passed(a_dot[0], None)
            z_dot = own if z_dot is None else z_dot.add_(own)
        return z_dot

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        geometry, kernel, a = self.geometry, tape["v"][0], tape["a"]
        if kernel is not None and (geometry.strided or "columns" in tape):
            return (self._folded_back(tape["d"], d_dot, kernel, a.shape[2:]),)
        back = self._pulled(d_dot, a)
        if kernel is not None:
            victims = len(kernel)
            d, a = side_by_side(tape["d"], victims), side_by_side(a, victims)
            groups = victims * geometry.groups
            more = geometry.gradients(d, a, kernel.flatten(0, 1), groups, data=True)[0]
            back.add_(in_rows(more, victims))
        return (back,)

    def gradients(self, tape: Tape, victims: int) -> tuple[Tensor, ...]:
        """(V, out, in, …): one kernel gradient per victim; and one bias gradient (V, out)."""
        if "columns" in tape:
            found = kernel_gradients(tape["d"].flatten(2), tape["columns"], victims)
            found = found.view(victims, *self.kernel_shape)
            return (found,) if self.bias is None else (found, _summed(tape["d"], victims))
        a, d = side_by_side(tape["a"], victims), side_by_side(tape["d"], victims)
        shape = self.kernel_shape
        # Only its shape is read when the kernel gradient is asked for.
        kernel = self.weight.new_empty(()).expand(victims * shape[0], *shape[1:])
        groups = victims * self.geometry.groups
        found = self.geometry.gradients(d, a, kernel, groups, data=False)[1]
        found = found.view(victims, *shape)
        return (found,) if self.bias is None else (found, _summed(tape["d"], victims))

    def named(self, names: dict[str, str], raw: Iterator[Tensor]) -> dict[str, Tensor | Outer]:
        if self.unfold is not None:
            return {**self.unfold(next(raw), next(raw))}
        found: dict[str, Tensor | Outer] = {names["weight"]: next(raw)}
        return found if self.bias is None else found | {names["bias"]: next(raw)}

    def directed(self, tape: Tape, v: Iterator[MaybeTensor]) -> None:
        kernel = next(v)
        bias = next(v) if self.bias is not None else None
        if kernel is None and bias is not None:
            kernel = bias.new_zeros(len(bias), *self.kernel_shape)
        tape["v"] = (kernel, bias)

    def aim(self, names: dict[str, str], target: State) -> tuple[Tensor, ...]:
        if self.unfold is not None:
            return self.unfold.aim(target)
        found = (target[names["weight"]],)
        return found if self.bias is None else (*found, target[names["bias"]])

    def products(
        self, tape: Tape, raw: tuple[Tensor, ...], aim: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        dot, own = super().products(tape, raw, aim)
        return dot, own if self.unfold is None else self.unfold.square(*raw)

    def direction(
        self,
        tape: Tape,
        raw: tuple[Tensor, ...],
        aim: tuple[Tensor, ...],
        down: Tensor,
        up: Tensor,
    ) -> tuple[Tensor, ...]:
        if self.unfold is None:
            return super().direction(tape, raw, aim, down, up)
        return self.unfold.direction(raw, aim, down, up)

    def picked(self, index: Tensor | int) -> Self:
        return replace(
            self,
            weight=self.weight[index],
            bias=None if self.bias is None else self.bias[index],
            unfold=None if self.unfold is None else self.unfold.picked(index),
        )

    def _passed(self, a: Tensor, bias: Tensor | None) -> Tensor:
        """W ∗ a + bias, with each row's own W."""
        geometry = self.geometry
        if self.weight.ndim == 4:
            return geometry.forward(a, self.weight, bias, geometry.groups)
        sets = len(self.weight)
        flat = None if bias is None else bias.flatten()
        groups = sets * geometry.groups
        found = geometry.forward(side_by_side(a, sets), self.weight.flatten(0, 1), flat, groups)
        return in_rows(found, sets)

    def _pulled(self, d: Tensor, a: Tensor) -> Tensor:
        """Wᵀ d, with each row's own W; of `a` only the shape counts."""
        geometry = self.geometry
        if self.weight.ndim == 4:
            return geometry.gradients(d, a, self.weight, geometry.groups, data=True)[0]
        sets = len(self.weight)
        d, a = side_by_side(d, sets), side_by_side(a, sets)
        groups = sets * geometry.groups
        found = geometry.gradients(d, a, self.weight.flatten(0, 1), groups, data=True)[0]
        return in_rows(found, sets)

    def _folded_back(self, d: Tensor, d_dot: Tensor, kernel: Tensor, size: torch.Size) -> Tensor:
        """Wᵀ d_dot + Ẇᵀ d as columns, folded once: libraries are slow at strided transposes."""
        geometry, victims = self.geometry, len(kernel)
        # One product of both: the columns are large, and are written once.
        both = torch.cat([d_dot.flatten(2), d.flatten(2)], 1)
        weight = self.weight.flatten(-3)
        if weight.ndim == 3:
            weight = weight.repeat_interleave(victims // len(weight), 0)
        own = torch.cat([weight.expand(victims, -1, -1), kernel.flatten(2)], 1)
        whole = (size[0], size[1])
        if self._by_rows(len(both)):
            own = own.mT.repeat_interleave(len(both) // victims, 0)
            return pulled_back(own, both, whole, self._window, geometry.padding)
        columns = times_own(own.mT, both)
        return folded_back(
            columns, whole, self._window, geometry.stride, geometry.padding, geometry.dilation
        )

    @property
    def _window(self) -> Pair:
        return self.kernel_shape[2], self.kernel_shape[3]

    def _by_columns(self, a: Tensor) -> bool:
        """Whether the passes go through the columns of a."""
        few = len(a) <= _FEW_ROWS and a.shape[1] <= _CHANNELS_OF_FEW
        small = self.weight.ndim == 4 and self.geometry.groups == 1 and self._window != (1, 1)
        return small and (few or a.shape[1] <= _FEW_CHANNELS)

    def _by_rows(self, rows: int) -> bool:
        """Whether the columns of a window's rows are folded one after the other."""
        geometry, large = self.geometry, self._window[0] * self._window[1] >= _LARGE_WINDOW
        dense = geometry.stride == (1, 1) and geometry.dilation == (1, 1)
        return dense and large and rows > _FEW_ROWS

    def _size_behind(self, a: Tensor) -> Pair:
        """The height and width of what leaves."""
        geometry, window = self.geometry, self._window
        rows, columns = (
            (a.shape[2 + i] + 2 * geometry.padding[i] - geometry.dilation[i] * (window[i] - 1) - 1)
            // geometry.stride[i]
            + 1
            for i in range(2)
        )
        return rows, columns


def _summed(d: Tensor, victims: int) -> Tensor:
    return summed(d.flatten(2).sum(2), victims)
