"""L-BFGS with one history and one line search per victim: torch's own mixes the victims."""

import torch
from torch import Tensor

from fedpriv.attacks.inversion.optimizers import Evaluate, MakeOptimizer

_ARMIJO = 1e-4
_TRIES = 8  # shorter steps before a row gives up its history
_SHORT = 20  # a history that is always allowed
_REMEMBERED = 2**28  # bytes of history beyond that


def flattened(parts: list[Tensor]) -> Tensor:
    """(V, D): the unknowns of each victim in one row."""
    return torch.cat([part.flatten(1) for part in parts], 1)


def dot(a: Tensor, b: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vecdot(a, b)
    return found


class _Lbfgs:
    """The state of V minimisations; slots of the history are shared, unused ones have ρ = 0."""

    looks_once = False  # the line search looks at other points

    def __init__(self, lr: float, history: int) -> None:
        self.lr, self.history = lr, history
        self.pairs: list[tuple[Tensor, Tensor, Tensor]] = []  # s, y (V, D) and ρ (V,)
        self.gamma = torch.empty(0)
        self.fresh = torch.empty(0, dtype=torch.bool)
        self.stuck: Tensor | None = None
        self.losses = torch.empty(0)
        self.gradient: Tensor | None = None

    def step(self, free: list[Tensor], evaluate: Evaluate) -> Tensor:
        if self.gradient is None:
            self.losses, parts = evaluate(free, None)
            self.gradient = flattened(parts)
            self.gamma = torch.ones_like(self.losses)
            self.fresh = torch.ones_like(self.losses, dtype=torch.bool)
            self.stuck = ~self.fresh
        before, g = self.losses, self.gradient
        d = self._direction(g)
        slope = dot(g, d)
        uphill = ~(slope < 0)
        if uphill.any():
            self._forget(uphill)
            d = torch.where(uphill.unsqueeze(1), -g, d)
            slope = dot(g, d)
        first = self.lr / g.abs().sum(1).clamp_min(1)
        t = torch.where(self.fresh, first, torch.full_like(first, self.lr))
        self._search(free, evaluate, d, slope, t)
        return before

    def _direction(self, g: Tensor) -> Tensor:
        """−H g by the two-loop recursion, all victims at once."""
        q = g.clone()
        alphas = []
        for s, y, rho in reversed(self.pairs):
            alphas.append(rho * dot(s, q))
            q.addcmul_(y, alphas[-1].unsqueeze(1), value=-1)
        q.mul_(self.gamma.unsqueeze(1))
        for (s, y, rho), alpha in zip(self.pairs, reversed(alphas), strict=True):
            q.addcmul_(s, (alpha - rho * dot(y, q)).unsqueeze(1))
        return q.neg_()

    def _search(
        self, free: list[Tensor], evaluate: Evaluate, d: Tensor, slope: Tensor, t: Tensor
    ) -> None:
        """Backtrack row by row until the loss falls enough. Other rows stay where they were."""
        assert self.gradient is not None and self.stuck is not None
        start, old_g, old_losses = flattened(free), self.gradient, self.losses
        g, losses = old_g.clone(), old_losses.clone()
        moved = torch.zeros_like(self.fresh)
        pending = (~self.stuck).nonzero().flatten()
        for _ in range(_TRIES):
            if not len(pending):
                break
            rows = None if len(pending) == len(t) else pending
            trial = start[pending] + t[pending].unsqueeze(1) * d[pending]
            found, parts = evaluate(split_like(trial, free), rows)
            enough = found <= old_losses[pending] + _ARMIJO * t[pending] * slope[pending]
            done = pending[enough]
            losses[done], g[done] = found[enough], flattened(parts)[enough]
            moved[done] = True
            bend = found - old_losses[pending] - t[pending] * slope[pending]
            ratio = -slope[pending] * t[pending] / (2 * bend)
            ratio = torch.where(torch.isfinite(ratio), ratio, torch.full_like(ratio, 0.1))
            t[pending] = torch.where(enough, t[pending], t[pending] * ratio.clamp(0.1, 0.5))
            pending = pending[~enough]
        s = torch.where(moved.unsqueeze(1), t.unsqueeze(1) * d, torch.zeros_like(d))
        for value, part in zip(free, split_like(start + s, free), strict=True):
            value.copy_(part)
        self.stuck |= (
            self.fresh & ~moved
        )  # not even along the gradient: at the end of its precision
        self._remember(s, g - old_g, moved)
        self.losses, self.gradient = losses, g

    def _remember(self, s: Tensor, y: Tensor, moved: Tensor) -> None:
        curvature, size = dot(s, y), dot(y, y)
        good = moved & (curvature > 1e-10 * dot(s, s).sqrt() * size.sqrt())
        rho = torch.where(good, 1 / curvature, torch.zeros_like(curvature))
        keep = good.unsqueeze(1)
        zero = torch.zeros_like(s)
        self.pairs.append((torch.where(keep, s, zero), torch.where(keep, y, zero), rho))
        room = _REMEMBERED // (2 * s.numel() * s.element_size())
        del self.pairs[: -max(min(self.history, _SHORT), min(self.history, room))]
        self.gamma = torch.where(good, curvature / size, self.gamma)
        self.fresh &= ~good
        if not moved.all():
            self._forget(~moved)

    def _forget(self, which: Tensor) -> None:
        """Start these rows anew from steepest descent."""
        for _, _, rho in self.pairs:
            rho.masked_fill_(which, 0)
        self.gamma = self.gamma.masked_fill(which, 1)
        self.fresh = self.fresh | which

    def rows(self, keep: Tensor) -> None:
        self.pairs = [(s[keep], y[keep], rho[keep]) for s, y, rho in self.pairs]
        self.gamma, self.fresh = self.gamma[keep], self.fresh[keep]
        self.losses = self.losses[keep]
        self.stuck = None if self.stuck is None else self.stuck[keep]
        self.gradient = None if self.gradient is None else self.gradient[keep]


def split_like(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    """(V, D) -> the unknowns' own shapes."""
    sizes = [part[0].numel() for part in like]
    parts = flat.split(sizes, 1)
    return [part.reshape(-1, *old.shape[1:]) for part, old in zip(parts, like, strict=True)]


def lbfgs(lr: float = 1.0, history: int = 20) -> MakeOptimizer:
    """One step is one direction and its line search: about one evaluation.

    A longer history converges in fewer steps, and is cut where it would take too much memory.
    """
    return lambda setting: _Lbfgs(lr, history)
