"""Clipped sums by an engine of our own: one forward pass, one backward pass, no wasted product.

It sees every function of torch that a parameter goes into. A model with a function that has no rule
here, or whose gradients it does not find, is left to Opacus.
"""

import copy
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fedpriv.clients.protection.architecture import Architecture
from fedpriv.clients.protection.each import Factors, Outer, Whole, joined, kept, together
from fedpriv.clients.protection.kept_layers import RULES, Kept

KEPT = 512 * 2**20  # bytes of gradients that are kept; beyond it they are made twice


class Unsupported(Exception):
    """A parameter is used in a way that has no rule here."""


class Watching(TorchFunctionMode):
    """While it lasts, functions with a rule keep what the gradients of their parameters are of."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__()
        self.own = {id(parameter) for parameter in parameters}
        self.found: dict[int, list[Whole | Outer]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not any(self.is_own(value) for value in (*args, *kwargs.values())):
            return func(*args, **kwargs)
        called = RULES[func](*args, **kwargs) if func in RULES else None
        if called is not None:
            rule, x, parameters = called
            return Kept.apply(rule, self.keep, x, *parameters)
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.requires_grad and not self.is_own(result):
            raise Unsupported(f"{getattr(func, '__name__', func)} has no rule for its parameters")
        return result

    def is_own(self, value: Any) -> bool:
        if isinstance(value, list | tuple):
            return any(id(one) in self.own for one in value)
        return id(value) in self.own

    def keep(self, found: Whole | Outer) -> None:
        self.found.setdefault(id(found.parameter), []).append(found)


class PerSample(nn.Module):
    """A model whose clipped sums are made from one backward pass."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.watching = Watching(())

    def forward(self, x: Tensor) -> Tensor:
        self.watching = Watching(self.trained)
        with self.watching:
            found: Tensor = self.model(x)
        return found

    @torch.no_grad()
    def clip(self, bound: float) -> None:
        """Leave the sum of clipped gradients in each parameter's `grad`."""
        found = [
            parts[0] if len(parts) == 1 else together(parts)
            for parts in self.watching.found.values()
        ]
        whole = [part for part in found if isinstance(part, Whole)]
        if sum(part.bytes for part in whole) <= KEPT:
            whole = list(map(kept, whole))
        parts = [*joined(whole), *(part for part in found if isinstance(part, Outer))]
        for parameter in self.trained:
            parameter.grad = None
        if parts:
            norms = torch.stack([part.squares() for part in parts]).sum(0).sqrt()
            factors = Factors.clipping(norms, bound)
            for own, total in chain.from_iterable(part.totals(factors) for part in parts):
                own.grad = total
        for parameter in self.trained:
            if parameter.grad is None:  # one that no output depends on
                parameter.grad = torch.zeros_like(parameter)
        self.watching = Watching(())


def knows(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether the engine finds the gradients of this model. No sample is looked at for that.

    On weights and inputs of its own it compares clipped sums with those of autograd, one sample
    after the other.
    """
    return _knows(Architecture(model, shape))


@cache
def _knows(known: Architecture) -> bool:
    model, shape = copy.deepcopy(known.module).cpu(), known.shape
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(
                torch.randn(p.shape, generator=draw)
                * max(1, p.flatten(1).shape[1] if p.dim() > 1 else 1) ** -0.5
            )
    x = torch.randn(2, *shape, generator=draw)
    trained = [p for p in model.parameters() if p.requires_grad]

    def loss(net: nn.Module, x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return torch.logsumexp(net(x).flatten(1), 1).sum()

    engine = PerSample(model.eval())  # dropout would draw other numbers for every sample
    with torch.random.fork_rng(devices=[]):
        alone = [
            torch.autograd.grad(loss(model, one[None]), trained, materialize_grads=True)
            for one in x
        ]
        norms = [float(torch.cat([g.flatten() for g in each]).norm()) for each in alone]
        bound = 0.5 * min(norms)
        try:
            loss(engine, x).backward()
            engine.clip(bound)
        except (Unsupported, RuntimeError, ValueError, IndexError):
            return False
    for place, p in enumerate(trained):
        wanted = sum(each[place] * bound / norm for each, norm in zip(alone, norms, strict=True))
        assert isinstance(wanted, Tensor) and p.grad is not None
        if not torch.allclose(p.grad, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max())):
            return False
    return bound > 0
