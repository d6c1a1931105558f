"""The cosine distance to observed gradients and its derivative, without autograd around them."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fedpriv.engine.explicit import Explicit, Passed
from fedpriv.engine.gradients import TINY, rate, square
from fedpriv.state import State


@dataclass(frozen=True, eq=False)
class Aimed:
    """As fedpriv.engine.gradients.cosine of an engine's gradients: 1 − dot/√(own · other).

    `aims` are the observed gradients, line by line, in the form in which the rules give theirs, and
    `other` (V,) is their squared norm.
    """

    engine: Explicit
    aims: list[tuple[Tensor, ...]]
    other: Tensor

    @classmethod
    def at(cls, engine: Explicit, target: State) -> Self | None:
        """For the gradients `target` (V, …); None if the victims have different weights."""
        if engine.which is not None or target.keys() != set(engine.names):
            return None
        aims = [line.rule.aim(line.names, target) for line in engine.lines]
        other = torch.stack([square(value) for value in target.values()]).sum(0)
        return cls(engine, aims, other)

    @torch.no_grad()
    def __call__(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The distances (V,) and their derivatives with respect to x (V, B, …); t (V, B, K)."""
        lines = self.engine.lines
        passed = Passed(lines, self.engine.loss, x, t)
        work = [
            (line.rule, tape, raw, aim)
            for line, tape, raw, aim in zip(lines, passed.tapes, passed.raw, self.aims, strict=True)
            if raw
        ]
        parts = [rule.products(tape, raw, aim) for rule, tape, raw, aim in work]
        dot = torch.stack([part[0] for part in parts]).sum(0)
        own = torch.stack([part[1] for part in parts]).sum(0)
        scale = rate(own, self.other)
        down, up = -scale, dot * scale / own.clamp_min(TINY)
        v = (
            value
            for rule, tape, raw, aim in work
            for value in rule.direction(tape, raw, aim, down, up)
        )
        x_bar, _ = passed.along(v)
        return 1 - dot * scale, torch.zeros_like(x) if x_bar is None else x_bar
