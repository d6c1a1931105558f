"""skip_compiler: optimisers that step without loading torch's compiler.

The first optimiser made in a process imports `torch._dynamo`, about five seconds of CPU time, only to
tell a compiler that is not running to keep out. Federations start many processes, and none compiles.
"""

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch.optim import Optimizer


def _eager_step(step: Callable[..., Any]) -> Callable[..., Any]:
    """torch's own wrapper of `step`, less its hints to the compiler."""

    @functools.wraps(step)
    def stepped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return stepped


def _keep_out(function: Any) -> None:
    """Mark a method that torch hides from the compiler as hidden already."""
    inner = getattr(function, "__wrapped__", None)
    if inner is not None and not hasattr(inner, "__dynamo_disable"):
        setattr(inner, "__dynamo_disable", inner)


def skip_compiler() -> None:
    """Let torch's optimisers work without `torch._dynamo`; the arithmetic is theirs, unchanged.

    Call it any number of times. It does nothing once the compiler is loaded, nor with a torch
    whose optimisers are built differently: then all works as before, only later.
    """
    if "torch._dynamo" in sys.modules:
        return
    wrap = getattr(import_module("torch.optim.optimizer"), "_use_grad_for_differentiable", None)
    if wrap is None:
        return
    compiled_for = wrap(lambda: None).__code__
    for name in ("state_dict", "load_state_dict", "zero_grad", "add_param_group"):
        _keep_out(getattr(Optimizer, name))
    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, Optimizer):
            step = vars(kind).get("step")
            if getattr(step, "__code__", None) is compiled_for:
                kind.step = _eager_step(step.__wrapped__)  # type: ignore[method-assign, union-attr]
