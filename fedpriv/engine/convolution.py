"""Convolutions with one kernel for all samples, one per set of samples, and one per victim."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from fedpriv.engine.columns import folded_back, kernel_gradients, pulled_back, times_own, unfolded
from fedpriv.engine.folding import Unfold
from fedpriv.engine.geometry import Geometry, Pair, flipped, in_rows, side_by_side
from fedpriv.engine.gradients import Outer
from fedpriv.engine.rules import MaybeTensor, Rule, Tape, inner, summed
from fedpriv.state import State

# Matrix products of columns beat the library's kernels where these are slow: few channels, or one
# sample. For one sample with some channels, convolutions with flipped kernels do so.
_FEW_CHANNELS, _SOME_CHANNELS, _FEW_ROWS, _CHANNELS_OF_FEW = 6, 16, 2, 64
_COLUMNS_OF_FEW = 2**18  # elements of a sample's columns; more leave the cache and take longer
_LARGE_WINDOW = 16  # elements, from which columns are folded row by row of the window


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
        if a[0].shape[0] > _FEW_ROWS:
            return self._passed(a[0], self.bias)
        z = torch.matmul(self.weight.flatten(1), columns)
        if self.bias is not None:
            z += self.bias.unsqueeze(1)
        return z.view(z.shape[0], -1, *self._size_behind(a[0]))

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        return (self._pulled(d, tape["a"]) if tape["deep"] else None,)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        kernel, bias = tape["v"]
        geometry, z_dot = self.geometry, None
        if kernel is not None and "columns" in tape:
            z_dot = times_own(kernel.flatten(2), tape["columns"])
            if bias is not None:
                z_dot += bias.repeat_interleave(z_dot.shape[0] // bias.shape[0], 0).unsqueeze(2)
            z_dot = z_dot.view(z_dot.shape[0], -1, *self._size_behind(tape["a"]))
        elif kernel is not None:
            victims = kernel.shape[0]
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
        if kernel is not None and kernel.shape[0] == 1 and self._by_flipping(a):
            both = torch.cat([self._flipped, flipped(kernel[0])], 1)
            return (self._turned(torch.cat([d_dot, tape["d"]], 1), both),)
        if kernel is not None and (geometry.strided or "columns" in tape):
            return (self._folded_back(tape["d"], d_dot, kernel, a.shape[2:]),)
        back = self._pulled(d_dot, a)
        if kernel is not None:
            victims = kernel.shape[0]
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
            kernel = bias.new_zeros(bias.shape[0], *self.kernel_shape)
        tape["v"] = (kernel, bias)

    def aim(self, names: dict[str, str], target: State) -> tuple[Tensor, ...]:
        if self.unfold is not None:
            return self.unfold.aim(target)
        found = (target[names["weight"]],)
        return found if self.bias is None else (*found, target[names["bias"]])

    def products(
        self, tape: Tape, raw: tuple[Tensor, ...], aim: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        if self.unfold is None:
            return super().products(tape, raw, aim)
        kernel, bias = raw
        tape["gamma"] = gamma = self.unfold.gamma(kernel, bias)  # `direction` takes it too
        return inner(raw, aim), self.unfold.square(kernel, bias, gamma)

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
        return self.unfold.direction(raw, aim, tape["gamma"], down, up)

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
        sets = self.weight.shape[0]
        flat = None if bias is None else bias.flatten()
        groups = sets * geometry.groups
        found = geometry.forward(side_by_side(a, sets), self.weight.flatten(0, 1), flat, groups)
        return in_rows(found, sets)

    def _pulled(self, d: Tensor, a: Tensor) -> Tensor:
        """Wᵀ d, with each row's own W; of `a` only the shape counts."""
        geometry = self.geometry
        if self._by_flipping(a):
            return self._turned(d, self._flipped)
        if self.weight.ndim == 4:
            return geometry.gradients(d, a, self.weight, geometry.groups, data=True)[0]
        sets = self.weight.shape[0]
        d, a = side_by_side(d, sets), side_by_side(a, sets)
        groups = sets * geometry.groups
        found = geometry.gradients(d, a, self.weight.flatten(0, 1), groups, data=True)[0]
        return in_rows(found, sets)

    def _folded_back(self, d: Tensor, d_dot: Tensor, kernel: Tensor, size: torch.Size) -> Tensor:
        """Wᵀ d_dot + Ẇᵀ d as columns, folded once: libraries are slow at strided transposes."""
        geometry, victims = self.geometry, kernel.shape[0]
        # One product of both: the columns are large, and are written once.
        both = torch.cat([d_dot.flatten(2), d.flatten(2)], 1)
        weight = self.weight.flatten(-3)
        if weight.ndim == 3:
            weight = weight.repeat_interleave(victims // weight.shape[0], 0)
        own = torch.cat([weight.expand(victims, -1, -1), kernel.flatten(2)], 1)
        whole = (size[0], size[1])
        if self._by_rows(both.shape[0]):
            own = own.mT.repeat_interleave(both.shape[0] // victims, 0)
            return pulled_back(own, both, whole, self._window, geometry.padding)
        columns = times_own(own.mT, both)
        return folded_back(
            columns, whole, self._window, geometry.stride, geometry.padding, geometry.dilation
        )

    def _turned(self, d: Tensor, kernel: Tensor) -> Tensor:
        """The transpose of a convolution with stride 1, from its `flipped` kernel."""
        padding = [
            reach - own for reach, own in zip(self._reach, self.geometry.padding, strict=True)
        ]
        return conv2d(d, kernel, None, 1, padding, self.geometry.dilation)

    @cached_property
    def _flipped(self) -> Tensor:
        return flipped(self.weight).contiguous()

    @cached_property
    def _window(self) -> Pair:
        return self.kernel_shape[2], self.kernel_shape[3]

    @cached_property
    def _reach(self) -> Pair:
        """How far a window goes beyond its first element."""
        (rows, columns), dilation = self._window, self.geometry.dilation
        return dilation[0] * (rows - 1), dilation[1] * (columns - 1)

    @cached_property
    def _plain(self) -> bool:
        """Whether one kernel with a window serves all rows."""
        return self.weight.ndim == 4 and self.geometry.groups == 1 and self._window != (1, 1)

    def _by_columns(self, a: Tensor) -> bool:
        """Whether the passes go through the columns of a."""
        columns = a.shape[1:].numel() * self._window[0] * self._window[1]
        small = a.shape[1] <= _CHANNELS_OF_FEW and columns <= _COLUMNS_OF_FEW
        few = a.shape[0] <= _FEW_ROWS and small
        return self._plain and (few or a.shape[1] <= _FEW_CHANNELS)

    def _by_flipping(self, a: Tensor) -> bool:
        """Whether the passes towards x are convolutions with flipped kernels."""
        channels = self.kernel_shape[:2]
        some = min(channels) > _FEW_CHANNELS and max(channels) <= _SOME_CHANNELS
        inside = all(p <= r for p, r in zip(self.geometry.padding, self._reach, strict=True))
        dense = self._plain and self.geometry.stride == (1, 1)
        return a.shape[0] <= _FEW_ROWS and some and inside and dense

    def _by_rows(self, rows: int) -> bool:
        """Whether the columns of a window's rows are folded one after the other."""
        geometry, large = self.geometry, self._window[0] * self._window[1] >= _LARGE_WINDOW
        dense = geometry.stride == (1, 1) and geometry.dilation == (1, 1)
        return dense and large and rows > _FEW_ROWS

    def _size_behind(self, a: Tensor) -> Pair:
        """The height and width of what leaves."""
        geometry = self.geometry
        rows, columns = (
            (a.shape[2 + i] + 2 * geometry.padding[i] - self._reach[i] - 1) // geometry.stride[i]
            + 1
            for i in range(2)
        )
        return rows, columns


def _summed(d: Tensor, victims: int) -> Tensor:
    return summed(d.flatten(2).sum(2), victims)
