"""Which way to find samples' gradients is the fastest for a model, on this machine.

It is measured on made-up samples: no sample of the client has a say in it, and a reply says no more
than before. All ways give the same sums up to rounding.
"""

import copy
import logging
import time
from functools import cache

import torch
from torch import nn

from fedpriv.clients.protection.architecture import Architecture
from fedpriv.clients.protection.per_sample import KEPT, knows
from fedpriv.clients.protection.private_steps import Steps, private
from fedpriv.rng import SeededDraws, generator

log = logging.getLogger(__name__)
TRIES = 3  # steps of each way; the first one pays for allocations
WORTH = 40  # steps of a round from which on a measurement, of about a dozen, is made


def fastest(model: nn.Module, shape: tuple[int, ...], batch: int) -> str:
    """The way whose step of `batch` samples takes least time."""
    return _fastest(Architecture(model, shape), batch)


@cache
def _fastest(model: Architecture, batch: int) -> str:
    ways = ["explicit"] if knows(model.module, model.shape) else []
    ways.append("ghost")
    parameters = sum(p.numel() for p in model.module.parameters())
    if batch * parameters * 4 <= KEPT:  # these keep a gradient for every sample
        ways += ["hooks", "functorch"]
    with torch.random.fork_rng(devices=[]):
        taken = {way: seconds(model, way, batch) for way in ways}
    found = min(taken, key=lambda way: taken[way])
    log.info("dp: one step takes %s; %s is taken", taken, found)
    return found


def seconds(model: Architecture, way: str, batch: int) -> float:
    """What the fastest of a few steps takes on samples of zeros; infinite where it fails."""
    net = copy.deepcopy(model.module).train()
    plain = Steps(net, nn.functional.cross_entropy, torch.optim.SGD(net.parameters(), lr=0.0))
    device = next(net.parameters()).device
    x = torch.zeros(batch, *model.shape, device=device)
    y = torch.zeros(batch, dtype=torch.long, device=device)
    best = float("inf")
    try:
        made = private(plain, SeededDraws(generator(0)), way, 0.0, 1.0, batch, model.shape)
        for _ in range(TRIES):
            begun = time.perf_counter()
            made.optimiser.zero_grad()
            made.loss(made.model(x), y).backward()
            made.optimiser.step()
            best = min(best, time.perf_counter() - begun)
    except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
        log.info("dp: %s cannot train this model: %s", way, error)
    return best
