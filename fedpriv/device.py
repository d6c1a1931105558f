"""The device that work is done on: its name, how much fits there, how things get there and back.

`auto` is CUDA when present, and the CPU otherwise. In a worker of a cluster `auto` is what the
cluster gave to that worker: nothing else on the machine is its own.
"""

import copy
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fedpriv.errors import BadOption

log = logging.getLogger(__name__)
T = TypeVar("T")
CPU = torch.device("cpu")
ROOM = 0.8  # of an accelerator's free memory; the rest is for what its library takes besides
Known = dict[tuple[int, str], tuple[Any, Any]]  # what was moved: its id and the device -> both
_granted: list[str] = []  # what `auto` means in this process, if somebody else decides


def grant(name: str) -> None:
    """Let `auto` mean this device in the whole process: the one that a cluster gave to it."""
    _granted[:] = [name]


def device_of(name: str) -> torch.device:
    """`auto` is CUDA when present, the CPU otherwise; BadOption for a device that is not there."""
    if name == "auto":
        found = _granted[0] if _granted else "cuda"
        name = found if not found.startswith("cuda") or torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).sum().item()  # which `meta` cannot
    except (RuntimeError, AssertionError, ValueError, NotImplementedError) as error:
        why = str(error).partition("\n")[0]
        raise BadOption(
            f"federation.device: '{name}' is no device of this machine ({why}). Give 'auto', "
            "'cpu' or, with a GPU, 'cuda:0'."
        ) from error
    if device.type == "cuda":
        repeatable()
    return device


@cache
def repeatable() -> None:
    """The same bytes again on the same kind of GPU, in full float32 precision.

    TF32 keeps 10 of 23 bits of a product. An attack that matches gradients, and the noise of an ε,
    both need the others.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    full_precision(True)


def full_precision(on: bool) -> None:
    """Products in float32, or faster ones in TF32 where the hardware has it."""
    torch.backends.cuda.matmul.allow_tf32 = not on
    torch.backends.cudnn.allow_tf32 = not on


def of(model: nn.Module, otherwise: torch.device = CPU) -> torch.device:
    """Where a model is: the device of its parameters, or of its buffers."""
    first = next((p.device for p in (*model.parameters(), *model.buffers())), None)
    return otherwise if first is None else first


def free_bytes(device: torch.device) -> int | None:
    """What an accelerator has left, by its own figures; None for the CPU, whose memory is shared.

    Blocks that torch keeps for its next tensors count as free.
    """
    if device.type == "cpu":
        return None
    module: Any = torch.get_device_module(device)
    free: int = module.mem_get_info(device)[0]
    if hasattr(module, "memory_reserved"):
        free += module.memory_reserved(device) - module.memory_allocated(device)
    return free


def room(device: torch.device, gigabytes: float) -> float:
    """The gigabytes that work may take there: `gigabytes` on the CPU, what is free elsewhere."""
    free = free_bytes(device)
    return gigabytes if free is None else ROOM * free / 2**30


def halving(count: int, size: int, work: Callable[[range], T]) -> list[T]:
    """`work` on the numbers below `count`, at most `size` at a time.

    Where the device runs out of memory, half as many are tried at a time from there on.
    """
    found, start, size = [], 0, max(1, size)
    while start < count:
        try:
            found.append(work(range(start, min(count, start + size))))
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = max(1, min(size, count - start) // 2)
            _tell()
        else:
            start += size
            continue
        if torch.cuda.is_initialized():  # outside of the handler, which holds the work's tensors
            torch.cuda.empty_cache()
    return found


@cache
def _tell() -> None:
    """Say once why the work takes longer."""
    log.warning(
        "The device ran out of memory: the work goes on in smaller parts. Another program may be "
        "using the same device."
    )


def moved(value: T, device: torch.device, known: Known | None = None) -> T:
    """The same with every tensor and network on `device`; what is there already stays as it is.

    It looks into mappings, lists, tuples, dataclasses and partial functions; an object with a
    method `moved_to(device)` says itself what that means. What is in two places is moved once.
    `known` is filled with what was moved, for a later call.
    """
    known = {} if known is None else known
    key = id(value), str(device)
    if key not in known:
        known[key] = (value, _moved(value, device, known))  # the value too: its id stays its own
    found: T = known[key][1]
    return found


def _moved(value: Any, device: torch.device, known: Known) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if hasattr(value, "moved_to"):
        return value.moved_to(device)
    if isinstance(value, nn.Module):
        inside = (*value.parameters(), *value.buffers())
        there = all(_same(part.device, device) for part in inside)
        return value if there else copy.deepcopy(value).to(device)
    if isinstance(value, Mapping):
        parts = {key: moved(part, device, known) for key, part in value.items()}
        return value if all(parts[key] is part for key, part in value.items()) else parts
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        several = [moved(part, device, known) for part in value]
        unchanged = all(one is other for one, other in zip(several, value, strict=True))
        return value if unchanged else type(value)(several)
    if isinstance(value, partial):
        args, options = moved(value.args, device, known), moved(value.keywords, device, known)
        unchanged = args is value.args and options is value.keywords
        return value if unchanged else partial(value.func, *args, **options)
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        there_now = {name: moved(part, device, known) for name, part in own.items()}
        changed = {name: part for name, part in there_now.items() if part is not own[name]}
        return replace(value, **changed) if changed else value
    return value


def _same(one: torch.device, other: torch.device) -> bool:
    return one.type == other.type and (one.index or 0) == (other.index or 0)
