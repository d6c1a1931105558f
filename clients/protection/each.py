"""Gradients of every sample, made when asked for: their norms, and their sums times factors.

Norms and sums come from the same numbers, whatever weights a server sends; see `ghost`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import vector_norm

ROOM = 256 * 2**20  # bytes of gradients at a time
SMALL = 4096  # numbers of a parameter up to which it is joined with others
Total = tuple[Tensor, Tensor]  # a parameter and the sum of its gradients
Each = Callable[[slice], Tensor]  # the gradients (N, *shape) of some samples


def clipping_factors(norms: Tensor, bound: float) -> Tensor:
    """What brings gradients of these norms within the bound; 0 where single precision cannot.

    A factor below the smallest normal number of single precision is rounded to a few bits, up to
    twice as large. A server may send weights with which norms are that long.
    """
    factors = (bound / (norms + 1e-6)).clamp(max=1)
    smallest = torch.finfo(torch.float32).tiny
    return factors.where(norms.isfinite() & (factors >= smallest), 0)


@dataclass(frozen=True)
class Factors:
    """What the gradient of each sample is multiplied by; 0 for one that is not finite."""

    values: Tensor  # (N,)

    @classmethod
    def clipping(cls, norms: Tensor, bound: float) -> "Factors":
        return cls(clipping_factors(norms, bound))

    def total(self, each: Tensor, part: slice = slice(None)) -> Tensor:
        """The rows of a matrix (N, P) times their factors, added up."""
        return self.values[part].to(each.dtype) @ self.usable(each, part)

    def usable(self, each: Tensor, part: slice = slice(None)) -> Tensor:
        """Rows with the factor 0 as zeros: they may be infinite, and 0 times that is no number."""
        chosen = self.values[part] > 0
        return each if bool(chosen.all()) else each.where(chosen[:, None], 0)


@dataclass(frozen=True)
class Whole:
    """A parameter's gradients for N samples, some samples at a time."""

    parameter: Tensor
    count: int
    make: Each

    @property
    def bytes(self) -> int:
        return self.count * self.parameter.numel() * self.parameter.element_size()

    def parts(self) -> Iterator[tuple[slice, Tensor]]:
        size = max(1, ROOM // max(1, self.bytes // self.count))
        for start in range(0, self.count, size):
            part = slice(start, min(self.count, start + size))
            yield part, self.make(part).flatten(1)

    def squares(self) -> Tensor:
        return torch.cat([squares(each) for _, each in self.parts()])

    def totals(self, factors: Factors) -> Iterator[Total]:
        found = sum(factors.total(each, part) for part, each in self.parts())
        assert isinstance(found, Tensor)
        yield self.parameter, found.view_as(self.parameter)


@dataclass(frozen=True)
class Joined:
    """The gradients of small parameters side by side, in one matrix (N, P)."""

    parameters: tuple[Tensor, ...]
    each: Tensor

    def squares(self) -> Tensor:
        return squares(self.each)

    def totals(self, factors: Factors) -> Iterator[Total]:
        total = factors.total(self.each).split([p.numel() for p in self.parameters])
        for parameter, values in zip(self.parameters, total, strict=True):
            yield parameter, values.view_as(parameter)


@dataclass(frozen=True)
class Outer:
    """The gradients of a matrix for N samples, each an outer product y_i x_iᵀ."""

    parameter: Tensor
    x: Tensor  # (N, inputs)
    y: Tensor  # (N, outputs)

    @property
    def count(self) -> int:
        return len(self.x)

    def make(self, part: slice) -> Tensor:
        return self.y[part].unsqueeze(2) * self.x[part].unsqueeze(1)

    def squares(self) -> Tensor:
        return squares(self.x) * squares(self.y)

    def totals(self, factors: Factors) -> Iterator[Total]:
        x, y = factors.usable(self.x), factors.usable(self.y)
        yield self.parameter, (y * factors.values[:, None].to(y.dtype)).T @ x


def squares(rows: Tensor) -> Tensor:
    """The squared length of every row, in double precision."""
    found: Tensor = vector_norm(rows, dim=1, dtype=torch.float64).square()
    return found


def kept(found: Whole) -> Whole:
    """The same gradients, made now and once."""
    each = found.make(slice(0, found.count))
    return Whole(found.parameter, found.count, lambda part: each[part])


def joined(found: Sequence[Whole]) -> list[Whole | Joined]:
    """Small parameters in one matrix, the others as they are."""
    small = [one for one in found if one.parameter.numel() <= SMALL]
    rest: list[Whole | Joined] = [one for one in found if one.parameter.numel() > SMALL]
    if not small:
        return rest
    each = torch.cat([one.make(slice(0, one.count)).flatten(1) for one in small], 1)
    return [*rest, Joined(tuple(one.parameter for one in small), each)]


def together(found: list[Whole | Outer]) -> Whole:
    """The gradients of a parameter that several layers, or several calls of one, use."""
    first = found[0]
    return Whole(
        first.parameter,
        first.count,
        lambda part: torch.stack([one.make(part) for one in found]).sum(0),
    )
