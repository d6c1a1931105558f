"""How many victims fit into memory, and an allocator that keeps its pages between tensors."""

import ctypes
import functools
import logging
import sys

import torch
from torch import Tensor, nn

from fedpriv import device

log = logging.getLogger(__name__)

_COPIES_OF_WEIGHTS = 6  # observed, found, their product, the direction and its folded form
_COPIES_OF_ACTIVATIONS = 8  # a, z, d and their tangents, and what a convolution reorders
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def bytes_per_victim(
    model: nn.Module, shape: tuple[int, ...], *, weights: int, slots: int, steps: int
) -> int:
    """An upper estimate of what one victim with `slots` samples takes during an evaluation."""
    sizes: list[int] = []

    def measure(module: nn.Module, args: object, out: object) -> None:
        if isinstance(out, Tensor) and not list(module.children()):
            sizes.append(out.numel())

    hooks = [module.register_forward_hook(measure) for module in model.modules()]
    try:
        with torch.no_grad():
            model(torch.zeros(2, *shape, device=device.of(model)))
    finally:
        for hook in hooks:
            hook.remove()
    activations = (sum(sizes) // 2) * slots
    return 4 * steps * (_COPIES_OF_WEIGHTS * weights + _COPIES_OF_ACTIVATIONS * activations)


def rows_that_fit(gigabytes: float, each: int) -> int:
    """How many times `each` bytes go into `gigabytes`; never less than one."""
    return max(1, int(gigabytes * 2**30) // max(1, each))


@functools.cache
def keep_pages() -> None:
    """Let glibc reuse freed pages.

    By default it unmaps every tensor of more than a few hundred kilobytes as soon as it is freed,
    and an attack that allocates the same sizes a thousand times spends a quarter of its time on
    page faults.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        log.debug("no mallopt here")
        return
    mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    mallopt(_M_TRIM_THRESHOLD, 1 << 30)
