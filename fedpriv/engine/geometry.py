"""How a convolution's window moves, and victims as groups of one convolution."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import conv2d

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
        found: tuple[Tensor, Tensor] = torch.ops.aten.convolution_backward(
            d, a, weight, None, *options, wanted
        )[:2]
        return found


def flipped(kernel: Tensor) -> Tensor:
    """(out, in, …) -> (in, out, …): convolving d with it is the transpose, for stride 1."""
    return kernel.flip(2, 3).transpose(0, 1)


def side_by_side(values: Tensor, victims: int) -> Tensor:
    """(V·B, C, …) -> (B, V·C, …): the victims as groups of one convolution."""
    if values.shape[0] == victims:
        return values.reshape(1, -1, *values.shape[2:])
    split = values.view(victims, -1, *values.shape[1:])
    return split.transpose(0, 1).flatten(1, 2)


def in_rows(values: Tensor, victims: int) -> Tensor:
    """(B, V·C, …) -> (V·B, C, …), the inverse of `side_by_side`."""
    if values.shape[0] == 1:
        return values.view(victims, -1, *values.shape[2:])
    split = values.view(values.shape[0], victims, -1, *values.shape[2:])
    return split.transpose(0, 1).flatten(0, 1)
