"""Convolutions with one kernel for all samples, and with one kernel per victim."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d, fold

from fedpriv.engine.rules import MaybeTensor, Rule, Tape

Pair = tuple[int, int]


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
        return torch.ops.aten.convolution_backward(d, a, weight, None, *options, wanted)[:2]


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
    """z = W ∗ a + b; the tape's `v` is a tangent kernel (V, out, in, …) and bias (V, out)."""

    weight: Tensor
    bias: Tensor | None
    geometry: Geometry

    def forward(self, tape: Tape, *a: Tensor) -> Tensor:
        tape["a"] = a[0]
        return self.geometry.forward(a[0], self.weight, self.bias, self.geometry.groups)

    def backward(self, tape: Tape, d: Tensor) -> tuple[MaybeTensor, ...]:
        tape["d"] = d
        if not tape["deep"]:
            return (None,)
        geometry = self.geometry
        return (geometry.gradients(d, tape["a"], self.weight, geometry.groups, data=True)[0],)

    def weight_gradient(self, tape: Tape, victims: int) -> Tensor:
        """(V, out, in, …): one kernel gradient per victim."""
        a, d = side_by_side(tape["a"], victims), side_by_side(tape["d"], victims)
        # Only its shape is read when the kernel gradient is asked for.
        kernel = self.weight.new_empty(()).expand(
            victims * self.weight.shape[0], *self.weight.shape[1:]
        )
        groups = victims * self.geometry.groups
        found = self.geometry.gradients(d, a, kernel, groups, data=False)[1]
        return found.view(victims, *self.weight.shape)

    def tangent(self, tape: Tape, *a_dot: MaybeTensor) -> MaybeTensor:
        kernel, bias = tape["v"]
        geometry, z_dot = self.geometry, None
        if kernel is not None:
            victims = len(kernel)
            kernels = kernel.flatten(0, 1)
            groups = victims * geometry.groups
            biases = None if bias is None else bias.flatten()
            a = side_by_side(tape["a"], victims)
            z_dot = in_rows(geometry.forward(a, kernels, biases, groups), victims)
        if a_dot[0] is not None:
            own = geometry.forward(a_dot[0], self.weight, None, geometry.groups)
            z_dot = own if z_dot is None else z_dot.add_(own)
        return z_dot

    def second(self, tape: Tape, d_dot: Tensor) -> tuple[MaybeTensor, ...]:
        geometry, kernel, a = self.geometry, tape["v"][0], tape["a"]
        if kernel is not None and geometry.strided:
            return (self._folded_back(tape["d"], d_dot, kernel, a.shape[2:]),)
        back = geometry.gradients(d_dot, a, self.weight, geometry.groups, data=True)[0]
        if kernel is not None:
            victims = len(kernel)
            d, a = side_by_side(tape["d"], victims), side_by_side(a, victims)
            groups = victims * geometry.groups
            more = geometry.gradients(d, a, kernel.flatten(0, 1), groups, data=True)[0]
            back.add_(in_rows(more, victims))
        return (back,)

    def _folded_back(self, d: Tensor, d_dot: Tensor, kernel: Tensor, size: torch.Size) -> Tensor:
        """Wᵀ d_dot + Ẇᵀ d as columns that are folded once: libraries are slow at strided transposes."""
        geometry, victims = self.geometry, len(kernel)
        columns = torch.matmul(self.weight.flatten(1).mT, d_dot.flatten(2))
        own = kernel.flatten(2).mT.unsqueeze(1)
        grouped = columns.view(victims, -1, *columns.shape[1:])
        grouped += torch.matmul(own, d.flatten(2).view(victims, -1, d.shape[1], columns.shape[2]))
        window = (self.weight.shape[2], self.weight.shape[3])
        return fold(
            columns,
            (size[0], size[1]),
            window,
            geometry.dilation,
            geometry.padding,
            geometry.stride,
        )
