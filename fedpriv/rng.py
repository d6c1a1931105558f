"""One seed, many independent streams: a named generator per client, round and purpose.

`Draws` is what code asks for random numbers. Whoever calls decides where they come from: from a
torch generator with a seed, or from a cipher (cipher.py) with a key of the system's.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


def seed_of(seed: int, *names: object) -> int:
    """A 63-bit seed for the stream `names` of `seed`; the same on every machine."""
    text = "/".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> torch.Generator:
    """A torch generator for a stream of `seed`, by its names: `generator(7, "client", 3)`."""
    return torch.Generator().manual_seed(seed_of(seed, *names))


class Draws(Protocol):
    """A stream of random numbers, on the CPU. Noise has at least the precision of `dtype`."""

    def uniform(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """Numbers from 0 up to but without 1."""
        ...

    def coins(self, chance: float, shape: Sequence[int]) -> Tensor:
        """True with the given chance, each independently."""
        ...

    def integers(self, high: int, shape: Sequence[int]) -> Tensor:
        """Whole numbers from 0 up to but without `high`."""
        ...

    def permutation(self, count: int) -> Tensor:
        """0 to count − 1 in random order."""
        ...

    def normal(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """Gaussian noise of standard deviation 1."""
        ...

    def add_noise(self, values: Sequence[Tensor], deviation: float) -> None:
        """Add Gaussian noise of this standard deviation to each value, in place."""
        ...

    def laplace(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """Laplace noise of scale 1; its standard deviation is √2."""
        ...


@dataclass(frozen=True)
class SeededDraws:
    """Draws from a torch generator, for whatever need not be secret.

    torch keeps only 32 bits of a seed (manual_seed(s) is manual_seed(s + 2^32)), so that anybody
    can try all of them.
    """

    source: torch.Generator

    def uniform(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.rand(tuple(shape), generator=self.source, dtype=dtype)

    def coins(self, chance: float, shape: Sequence[int]) -> Tensor:
        return self.uniform(shape) < chance

    def integers(self, high: int, shape: Sequence[int]) -> Tensor:
        return torch.randint(high, tuple(shape), generator=self.source)

    def permutation(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self.source)

    def normal(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(tuple(shape), generator=self.source, dtype=dtype)

    def add_noise(self, values: Sequence[Tensor], deviation: float) -> None:
        for value in values:
            drawn = self.normal(value.shape, value.dtype).to(value.device)
            value.add_(drawn.mul_(deviation))

    def laplace(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        u = self.uniform(shape, torch.float64) - 0.5
        return (-u.sign() * torch.log1p(-2 * u.abs())).to(dtype)


Source = torch.Generator | Draws


def draws(source: Source) -> Draws:
    """Draws from a torch generator; draws of another kind as they are."""
    return SeededDraws(source) if isinstance(source, torch.Generator) else source
