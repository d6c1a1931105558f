"""Moving pixels as Pillow's affine transform does: fixed taps, hence linear and differentiable.

torchvision's grid sampling blends the border with the fill and has no cubic kernel for tensors, so
the geometric transformations of ATS table 5 are gathered here instead. A pixel's centre is at +0.5;
where the source lies outside of the image, the result is black.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Taps:
    """Every output pixel as a weighted sum of T input pixels; index and weight are (T, H·W)."""

    index: Tensor
    weight: Tensor


def gathered(x: Tensor, taps: Taps) -> Tensor:
    """The images (…, H, W) seen through `taps`: uint8, or floats in [0, 1]."""
    flat = x.flatten(-2)
    pairs = list(zip(taps.index.to(x.device), taps.weight.to(x.device), strict=True))
    out = torch.stack([flat[..., index] * weight for index, weight in pairs]).sum(0).view(x.shape)
    if len(pairs) > 1:  # a kernel with negative weights leaves the range
        out = out.clamp(0, 1 if x.is_floating_point() else 255)
    return out if x.is_floating_point() else out.round().to(x.dtype)


def _fixed(value: float) -> int:
    return math.floor(value * 65536 + 0.5)


def _nearest(matrix: tuple[float, ...], height: int, width: int) -> Taps:
    """The source of pixel (x, y): `matrix` applied to its centre, in Pillow's 16.16 arithmetic."""
    a, b, c, d, e, f = matrix
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    column = (x * _fixed(a) + y * _fixed(b) + _fixed(c + (a + b) / 2)) >> 16
    row = (x * _fixed(d) + y * _fixed(e) + _fixed(f + (d + e) / 2)) >> 16
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    index = torch.where(inside, row * width + column, 0)
    return Taps(index.view(1, -1), inside.view(1, -1).float())


@lru_cache(maxsize=256)
def shift(right: float, down: float, height: int, width: int) -> Taps:
    """Each pixel taken from `right` columns further right and `down` rows further down."""
    return _nearest((1, 0, right, 0, 1, down), height, width)


@lru_cache(maxsize=256)
def turn(degrees: float, height: int, width: int) -> Taps:
    """A turn anti-clockwise about the centre, nearest neighbour."""
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    x, y = width / 2, height / 2
    right, down = x - cosine * x + sine * y, y - sine * x - cosine * y
    return _nearest((cosine, -sine, right, sine, cosine, down), height, width)


@lru_cache(maxsize=256)
def shear_down(slope: float, height: int, width: int) -> Taps:
    """Columns slid by `slope` times their distance from the left edge, by Pillow's cubic kernel."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    source = y + 0.5 + slope * (x.double() + 0.5)
    inside = (source >= 0) & (source < height)
    above = (source - 0.5).floor()
    d = source - 0.5 - above
    weights = [-d + 2 * d**2 - d**3, 1 - 2 * d**2 + d**3, d + d**2 - d**3, d**3 - d**2]
    rows = [(above.long() + k).clamp(0, height - 1) for k in (-1, 0, 1, 2)]
    index = torch.stack([row * width + x for row in rows])
    return Taps(index.flatten(1), (torch.stack(weights) * inside).float().flatten(1))
