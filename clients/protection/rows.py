"""How many rows a batch is filled up to, so that its size never shows in a sample's last bits.

Libraries compute a few rows in another way than many, and each processor has its own idea of a few:
some change below four rows, some below eleven. Which way is taken depends on the shape of a batch
and not on what is in it. So every machine finds its own number on made-up samples.
"""

import copy
import logging
import math
from functools import cache

import torch
from torch import Tensor, nn

from fedpriv.clients.protection.architecture import Architecture
from fedpriv.rng import generator

log = logging.getLogger(__name__)
STEP, MANY, MANY_STEP = 4, 64, 16  # sizes of a batch are multiples of these; from MANY samples on


def rows_for(count: int, least: int) -> int:
    """How many rows a batch of so many samples has; those behind them are zeros.

    Libraries prepare themselves for every size of a batch, which takes longer than a step does.
    Poisson batches would have dozens of sizes.
    """
    step = STEP if count < MANY else MANY_STEP
    return max(least, math.ceil(count / step) * step)


def filled(x: Tensor, least: int) -> Tensor:
    """A batch with rows of zeros behind it; no loss looks at them."""
    return torch.cat([x, x.new_zeros(rows_for(len(x), least) - len(x), *x.shape[1:])])


def least_rows(model: nn.Module, shape: tuple[int, ...]) -> int:
    """The smallest size of a batch from which each row of this model is computed in one way."""
    return _least(Architecture(model, shape))


@cache
def _least(known: Architecture) -> int:
    model, x = drawn(known)
    many = passes(model, x)

    def alike(size: int) -> bool:
        few = passes(model, x[:size])
        return len(few) == len(many) and all(
            torch.equal(one[:size], other) for one, other in zip(many, few, strict=True)
        )

    if not alike(MANY):
        log.warning(
            "dp: on this machine batches of %d and of %d rows are computed in different ways, so "
            "that the last bits of a gradient may tell how many samples a batch has.",
            MANY,
            len(x),
        )
        return MANY
    found = MANY
    while found > STEP and alike(found - STEP):
        found -= STEP
    return found


def drawn(known: Architecture) -> tuple[nn.Module, Tensor]:
    """The model with weights of its own, on its device, and a batch; nobody's samples."""
    device, stream = next(known.module.parameters()).device, generator(0, "rows")
    model = copy.deepcopy(known.module).cpu().eval()  # dropout would draw anew for every size
    with torch.no_grad():
        for p in model.parameters():
            inputs = max(1, p[0].numel()) if p.ndim else 1
            p.copy_(torch.randn(p.shape, generator=stream) * inputs**-0.5)
    x = torch.randn(MANY + MANY_STEP, *known.shape, generator=stream)
    return model.to(device), x.to(device)


def passes(model: nn.Module, x: Tensor) -> list[Tensor]:
    """What every layer gives for each row, and what comes back to it."""
    found: list[Tensor] = []

    def noted(_: nn.Module, __: object, out: object) -> None:
        if isinstance(out, Tensor) and len(out) == len(x):
            found.append(out.detach())
            if out.requires_grad:
                out.register_hook(lambda back: found.append(back.detach()))

    handles = [layer.register_forward_hook(noted) for layer in model.modules()]
    x = x.detach().requires_grad_()
    try:
        model(x).reshape(len(x), -1).logsumexp(1).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    model.zero_grad(set_to_none=True)
    assert x.grad is not None
    return [*found, x.grad]
