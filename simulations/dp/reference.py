"""Mechanisms by the book, whose ε is known: what a verifier must neither miss nor refute."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedpriv.errors import BadOption
from fedpriv.simulations.dp.releases import Release, Session
from fedpriv.simulations.dp.worlds import Update, World


def norm(update: Update, order: int = 2) -> float:
    """The L1 or L2 norm of all entries together."""
    parts = [float((np.abs(v.astype(np.float64)) ** order).sum()) for v in update.values()]
    return float(sum(parts) ** (1 / order))


def clipped(update: Update, clip: float, order: int = 2) -> Update:
    """The update scaled down to the norm `clip` if it is longer (arXiv 1607.00133)."""
    factor = min(1.0, clip / max(norm(update, order), 1e-30))
    return {k: v.astype(np.float64) * factor for k, v in update.items()}


@dataclass(frozen=True)
class Gaussian:
    """Clip to an L2 norm and add Gaussian noise of `noise_multiplier` times that norm."""

    noise_multiplier: float
    clip: float = 1.0
    name: str = "gaussian"
    takes: Literal["update"] = "update"
    fixed: bool = False

    def __post_init__(self) -> None:
        positive(noise_multiplier=self.noise_multiplier, clip=self.clip)

    def session(self) -> Session:
        return lambda world, _: {k: v[0] for k, v in self.many(world, 1).items()}

    def many(self, world: World, count: int) -> Release:
        scale = self.noise_multiplier * self.clip
        centre = clipped(world.updates[0], self.clip)
        return {
            k: v + scale * np.random.standard_normal((count, *v.shape)) for k, v in centre.items()
        }


@dataclass(frozen=True)
class Laplace:
    """Clip to an L1 norm and add Laplace noise of scale clip/ε: pure ε-DP (Dwork 2006)."""

    epsilon: float
    clip: float = 1.0
    name: str = "laplace"
    takes: Literal["update"] = "update"
    fixed: bool = False

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, clip=self.clip)

    def session(self) -> Session:
        return lambda world, _: {k: v[0] for k, v in self.many(world, 1).items()}

    def many(self, world: World, count: int) -> Release:
        centre = clipped(world.updates[0], self.clip, order=1)
        scale = self.clip / self.epsilon
        return {k: v + np.random.laplace(0, scale, (count, *v.shape)) for k, v in centre.items()}


def positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 < value < math.inf:
            raise BadOption(f"{name.replace('_', '-')} must be a number above 0, got {value}.")


REFERENCES: Mapping[str, Any] = {"gaussian": Gaussian, "laplace": Laplace}
