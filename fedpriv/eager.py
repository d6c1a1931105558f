"""skip_compiler: optimisers and torch.func that work without loading torch's compiler.

The first optimiser step or torch.func gradient of a process imports `torch._dynamo`, only to tell a
compiler that is not running to keep out. With torch 2.15 that import takes 1.19 CPU seconds
(`benchmarks/eager.py`; 7 measurements between 1.11 and 1.41); with `skip_compiler` the same step
takes 0.003. A short run of the command needs 2.9 CPU seconds in place of 4.6. Every client process
of a federation pays this, and none compiles.

No plain way does as much. The variables TORCHDYNAMO_DISABLE and TORCH_COMPILE_DISABLE switch the
compiler off after it was imported. `torch.optim.sgd.sgd` and `torch.autograd.grad` do not import
it, but Opacus, schedules and L-BFGS need optimisers, and `vmap` needs gradients of torch.func.
Once something else loads the compiler, torch's own code runs again.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from importlib import import_module
from types import FunctionType, SimpleNamespace
from typing import Any

import torch
from torch.optim import Optimizer


def _compiler_is_loaded() -> bool:
    return "torch._dynamo" in sys.modules


def _eager_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """An optimiser's step as torch wraps it, less the hints to the compiler."""
    step: Callable[..., Any] = original.__wrapped__  # type: ignore[attr-defined]

    @wraps(step)
    def stepped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if _compiler_is_loaded():
            return original(self, *args, **kwargs)
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return stepped


class _TorchWithoutCompiler:
    """torch, for a function that only asks the compiler to look away."""

    _dynamo = SimpleNamespace(compiled_autograd=SimpleNamespace(_disable=nullcontext))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _eager_gradient(original: FunctionType) -> Callable[..., Any]:
    """torch.func's own gradient function, with that torch in its eyes."""
    seen = {**original.__globals__, "torch": _TorchWithoutCompiler()}
    eager = FunctionType(original.__code__, seen, original.__name__, original.__defaults__)

    @wraps(original)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return (original if _compiler_is_loaded() else eager)(*args, **kwargs)

    return gradient


def _keep_out(function: Any) -> None:
    """Mark a method that torch hides from the compiler as hidden already."""
    inner = getattr(function, "__wrapped__", None)
    if inner is not None and not hasattr(inner, "__dynamo_disable"):
        setattr(inner, "__dynamo_disable", inner)


def _skip_in_optimisers() -> None:
    wrap = getattr(import_module("torch.optim.optimizer"), "_use_grad_for_differentiable", None)
    if wrap is None:
        return
    compiled_for = wrap(lambda: None).__code__
    for name in ("state_dict", "load_state_dict", "zero_grad", "add_param_group"):
        _keep_out(getattr(Optimizer, name))
    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, Optimizer):
            step = vars(kind).get("step")
            if step is not None and getattr(step, "__code__", None) is compiled_for:
                kind.step = _eager_step(step)  # type: ignore[method-assign]


def _skip_in_functions() -> None:
    transforms = import_module("torch._functorch.eager_transforms")
    gradient = getattr(transforms, "_autograd_grad", None)
    if isinstance(gradient, FunctionType) and "_dynamo" in gradient.__code__.co_names:
        transforms._autograd_grad = _eager_gradient(gradient)  # type: ignore[attr-defined]


def skip_compiler() -> None:
    """Let torch's optimisers and torch.func work without `torch._dynamo`; the arithmetic is theirs.

    Call it any number of times. It does nothing once the compiler is loaded, nor with a torch
    that is built differently: then all works as before, only later.
    """
    if not _compiler_is_loaded():
        _skip_in_optimisers()
        _skip_in_functions()
