"""A pretend accelerator: it computes on the CPU, but takes no tensor of the CPU beside its own.

torch lets Python be a backend (the key PrivateUse1). A tensor of the device "pretend" is a shell
around a tensor of the CPU. As on a GPU, an operator refuses tensors of two devices, with the
exceptions that a GPU makes: numbers without dimensions, indices, and copies. A generator of the CPU
draws nothing on the device. Every operator is counted, with the sizes of what it made, and so is
what the CPU did meanwhile.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

NAME = "pretend"
aten: Any = torch.ops.aten
# torch makes these of an empty tensor that it enlarges, and a shell cannot grow.
MAKERS = (
    *("arange", "arange.start", "arange.start_step", "eye", "eye.m", "linspace"),
    *("randperm", "randperm.generator", "tril_indices", "triu_indices"),
)
FREE, TOTAL = 8 * 2**30, 16 * 2**30

# A GPU takes indices that lie on the CPU, and copies between the two.
_CROSSING = {aten.copy_, aten._to_copy, aten._copy_from, aten._foreach_copy_}
_INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class Mixed(RuntimeError):
    """An operator met tensors of the device and of the CPU."""


@dataclass
class Ran:
    """What ran where while it was counted: operators, and how many numbers they made."""

    device: Counter[str] = field(default_factory=Counter)
    cpu: Counter[str] = field(default_factory=Counter)
    made_there: int = 0
    made_here: int = 0

    @property
    def share(self) -> float:
        """The part of all numbers that the device made."""
        return self.made_there / max(1, self.made_there + self.made_here)


_counting: list[Ran] = []


class Shell(torch.Tensor):
    """A tensor of the pretend device."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Shell":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def tolist(self) -> Any:
        """torch gives a tensor of a subclass none of its own."""
        return self.cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"pretend({self.inner!r})"

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return on_device(func, args, kwargs or {})


def on_device(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operator, computed by the CPU on what the shells hold."""
    packet = func.overloadpacket
    if packet is aten._pin_memory or packet is aten.is_pinned:
        return False
    check_unmixed(func, args, kwargs)
    target = kwargs.get("device")
    leaves = target is not None and torch.device(target).type != NAME
    bare = {key: value for key, value in kwargs.items() if key != "device"}
    if packet is aten.copy_ and not isinstance(args[0], Shell):
        leaves = True
    out = func(*tree_map(_opened, args), **tree_map(_opened, bare))
    if torch.Tag.inplace_view in func.tags:
        with no_dispatch():  # the shell takes the shape that its inside has now
            func(*args, **kwargs)
    for ran in _counting:
        ran.device[func.name()] += 1
        ran.made_there += sum(x.numel() for x in tree_iter(out) if isinstance(x, torch.Tensor))
    return _returned(func, args, kwargs, out, leaves)


def _returned(func: Any, args: Any, kwargs: dict[str, Any], out: Any, leaves: bool) -> Any:
    """What an operator gives back: arguments that it wrote to are themselves."""
    written = {}
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = kwargs.get(argument.name, args[number] if number < len(args) else None)
            for one in tree_iter(value):
                if isinstance(one, Shell):
                    if one.shape != one.inner.shape:
                        raise NotImplementedError(f"{func.name()} changes the shape of a tensor")
                    written[id(one.inner)] = one
                elif isinstance(one, torch.Tensor):
                    written[id(one)] = one

    def shut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in written:
            return written[id(value)]
        return value if leaves else Shell(value)

    return tree_map(shut, out)


def _opened(value: Any) -> Any:
    return value.inner if isinstance(value, Shell) else value


def check_unmixed(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Mixed where a GPU would say that its tensors are on two devices."""
    name, packet = func.name(), func.overloadpacket
    for value in kwargs.values():
        if isinstance(value, torch.Generator) and value.device.type != NAME:
            raise Mixed(f"{name}: expected a '{NAME}' generator but found one of the CPU")
    if packet in _CROSSING:
        return
    strangers = [
        value
        for value in tree_iter((args, kwargs))
        if isinstance(value, torch.Tensor) and not isinstance(value, Shell)
    ]
    if packet in _INDEXING and isinstance(args[0], Shell):
        indices = [value for value in tree_iter(args[1]) if isinstance(value, torch.Tensor)]
        strangers = [one for one in strangers if not any(one is index for index in indices)]
    if torch.Tag.pointwise in func.tags or packet in _INDEXING or packet is aten.where:
        strangers = [one for one in strangers if one.dim()]
    if strangers:
        shapes = ", ".join(str(tuple(one.shape)) for one in strangers)
        raise Mixed(
            f"{name}: expected all tensors on one device, but found {NAME} and cpu (of shape "
            f"{shapes})"
        )


class _OnCpu(TorchDispatchMode):
    """Counts what plain tensors compute."""

    def __init__(self, ran: Ran) -> None:
        super().__init__()
        self.ran = ran

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        made = [x for x in tree_iter(out) if isinstance(x, torch.Tensor)]
        if not any(isinstance(x, Shell) for x in (*tree_iter((args, kwargs)), *made)):
            self.ran.cpu[func.name()] += 1
            self.ran.made_here += sum(x.numel() for x in made)
        return out


@contextmanager
def counted() -> Iterator[Ran]:
    """What runs on the device, and on the CPU beside it, while the block lasts."""
    ran = Ran()
    _counting.append(ran)
    try:
        with _OnCpu(ran):
            yield ran
    finally:
        _counting.remove(ran)


class _Module(_DummyBackendModule):
    """What torch asks a device's module for."""

    def current_device(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None:
        pass

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        return FREE, TOTAL


_library: list[torch.library.Library] = []


def install() -> torch.device:
    """The device, made known to torch once per process, before anything is differentiated."""
    if not _library:
        _setup_privateuseone_for_python_backend(NAME, _Module())
        library = torch.library.Library("aten", "IMPL")
        library.impl("empty.memory_format", _empty, "PrivateUse1")
        library.impl("empty_strided", _empty_strided, "PrivateUse1")
        library.impl("_copy_from", _copy_from, "PrivateUse1")
        for name in MAKERS:
            library.impl(name, _maker(name), "PrivateUse1")
        _library.append(library)
    return torch.device(NAME, 0)


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **rest: Any) -> Shell:
    return Shell(torch.empty(size, dtype=dtype, memory_format=memory_format, device="cpu"))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **rest: Any) -> Shell:
    return Shell(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


def _maker(name: str) -> Any:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(aten, packet), overload or "default")

    def made(*args: Any, device: Any = None, **kwargs: Any) -> Shell:
        check_unmixed(operator, args, kwargs)
        return Shell(operator(*args, **kwargs, device="cpu"))

    return made


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    _opened(target).copy_(_opened(source))
    return target
