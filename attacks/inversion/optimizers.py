"""First-order optimisers for many independent problems at once, and wrappers that change a step."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from typing import Protocol

import torch
from torch import Tensor

Evaluate = Callable[[list[Tensor], Tensor | None], tuple[Tensor, list[Tensor]]]
"""(unknowns, rows or None for all) -> losses (V,) and their gradients; unknowns are those of
the rows.
"""


@dataclass(frozen=True)
class Setting:
    """What an optimiser may know beforehand: the number of steps and the box that x lies in."""

    steps: int
    box: tuple[Tensor, Tensor] | None = None


class Optimizer(Protocol):
    lr: float

    @property
    def looks_once(self) -> bool:
        """Whether a step evaluates once, at the point where it begins."""

    @property
    def stuck(self) -> Tensor | None:
        """(V,) rows that cannot improve any more, if the method can tell."""

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        """Change the unknowns in place; the losses (V,) at the point before."""

    def rows(self, keep: Tensor) -> None:
        """Forget all rows but these."""


MakeOptimizer = Callable[[Setting], Optimizer]


class _Adam:
    stuck: Tensor | None = None
    looks_once = True

    def __init__(self, lr: float, betas: tuple[float, float], eps: float) -> None:
        self.lr, self.betas, self.eps = lr, betas, eps
        self.count = 0
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        losses, gradients = evaluate(free, None)
        if not self.first:
            self.first = [torch.zeros_like(value) for value in free]
            self.second = [torch.zeros_like(value) for value in free]
        self.count += 1
        fast, slow = (1 - beta**self.count for beta in self.betas)
        for value, gradient, m, v in zip(free, gradients, self.first, self.second, strict=True):
            m.lerp_(gradient, 1 - self.betas[0])
            v.mul_(self.betas[1]).addcmul_(gradient, gradient, value=1 - self.betas[1])
            spread = (v / slow).sqrt_().add_(self.eps)
            value.addcdiv_(m, spread, value=-self.lr / fast)
        return losses

    def rows(self, keep: Tensor) -> None:
        self.first = [value[keep] for value in self.first]
        self.second = [value[keep] for value in self.second]


def adam(
    lr: float = 0.1, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
) -> MakeOptimizer:
    return lambda setting: _Adam(lr, betas, eps)


class _Sgd:
    stuck: Tensor | None = None
    looks_once = True

    def __init__(self, lr: float, momentum: float) -> None:
        self.lr, self.momentum = lr, momentum
        self.velocity: list[Tensor] = []

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        losses, gradients = evaluate(free, None)
        if not self.velocity:
            self.velocity = [torch.zeros_like(value) for value in free]
        for value, gradient, v in zip(free, gradients, self.velocity, strict=True):
            v.mul_(self.momentum).add_(gradient)
            value.add_(gradient + self.momentum * v, alpha=-self.lr)
        return losses

    def rows(self, keep: Tensor) -> None:
        self.velocity = [value[keep] for value in self.velocity]


def sgd(lr: float = 0.1, momentum: float = 0.9) -> MakeOptimizer:
    """With Nesterov's momentum, as the papers' attacks use it."""
    return lambda setting: _Sgd(lr, momentum)


class _Wrapped:
    def __init__(self, inner: Optimizer) -> None:
        self.inner = inner

    @property
    def lr(self) -> float:
        return self.inner.lr

    @lr.setter
    def lr(self, value: float) -> None:
        self.inner.lr = value

    @property
    def looks_once(self) -> bool:
        return self.inner.looks_once

    @property
    def stuck(self) -> Tensor | None:
        return self.inner.stuck

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        return self.inner.step(free, evaluate)

    def rows(self, keep: Tensor) -> None:
        self.inner.rows(keep)


class _Signed(_Wrapped):
    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        def signs(free: list[Tensor], rows: Tensor | None) -> tuple[Tensor, list[Tensor]]:
            losses, gradients = evaluate(free, rows)
            return losses, [gradient.sign_() for gradient in gradients]

        return self.inner.step(free, signs)


def signed(make: MakeOptimizer) -> MakeOptimizer:
    """Only the signs of the gradient, which frees the step from its scale."""
    return lambda setting: _Signed(make(setting))


class _Boxed(_Wrapped):
    def __init__(self, inner: Optimizer, box: tuple[Tensor, Tensor]) -> None:
        super().__init__(inner)
        self.box = box

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        losses = self.inner.step(free, evaluate)
        free[0].clamp_(*self.box)
        return losses


def boxed(make: MakeOptimizer) -> MakeOptimizer:
    """x is put back between black and white after each step, where these are known."""
    return lambda setting: (
        _Boxed(make(setting), setting.box) if setting.box is not None else make(setting)
    )


class _Scheduled(_Wrapped):
    def __init__(self, inner: Optimizer, scale: Callable[[float], float], steps: int) -> None:
        super().__init__(inner)
        self.full, self.scale, self.steps, self.count = inner.lr, scale, steps, 0

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        self.inner.lr = self.full * self.scale(self.count / self.steps)
        self.count += 1
        return self.inner.step(free, evaluate)


def decayed(make: MakeOptimizer, by: float = 0.1) -> MakeOptimizer:
    """The step size times `by` after 3/8, 5/8 and 7/8 of the steps."""

    def scale(done: float) -> float:
        return by ** sum(done >= part for part in (3 / 8, 5 / 8, 7 / 8))

    return lambda setting: _Scheduled(make(setting), scale, setting.steps)


def annealed(make: MakeOptimizer) -> MakeOptimizer:
    """The step size falls to zero along half a cosine."""
    return lambda setting: _Scheduled(
        make(setting), lambda done: 0.5 * (1 + cos(pi * done)), setting.steps
    )
