"""Canary clients: each sends a random direction far beyond the clip norm (arXiv 2302.03098).

Random directions of many dimensions are almost orthogonal, so that many canaries fit into one run,
and directions that nobody sent show what scores look like without the canary. The attacker sees the
models that a server publishes. Every second canary changes its sign from round to round: its score
over all models sees through noise that is the same in every round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.rng import generator
from fedpriv.state import State

HERE = "fedpriv.simulations.dp.client_canaries"
ABSENT = 2000  # directions that nobody sent
LONG = 10.0  # times the clip norm: it is for the strategy to clip


def direction(size: int, number: int, seed: int) -> Tensor:
    """(P,): the direction of canary `number`, of norm 1."""
    drawn = torch.randn(size, generator=generator(seed, "canary client", number))
    unit: Tensor = drawn / drawn.norm()
    return unit


def sign(number: int, server_round: int) -> float:
    """Even canaries push one way; odd ones change from round to round."""
    return -1.0 if number % 2 and server_round % 2 else 1.0


@dataclass(frozen=True)
class CanaryClients(PrivacyPlugin):
    """Clients from partition `first` on send their own direction instead of what they learned."""

    first: int
    norm: float
    draw: int

    def on_update(self, update: State, job: Job) -> State:
        number = job.partition - self.first
        if number < 0:
            return update
        names = [name for name, _ in job.shared.named_parameters()]
        sizes = [update[name].numel() for name in names]
        flat = direction(sum(sizes), number, self.draw)
        flat *= LONG * self.norm * sign(number, job.round)
        parts = zip(names, flat.split(sizes), strict=True)
        still = {name: torch.zeros_like(value) for name, value in update.items()}
        return still | {n: p.reshape(update[n].shape).to(update[n].dtype) for n, p in parts}


def scored(models: Sequence[Tensor], count: int, seed: int) -> tuple[dict[str, np.ndarray], ...]:
    """Scores of canaries that were in, and of absent ones, by what the attacker sees.

    `models` (P,) each: the first model, and what was published after every round.
    """
    changes = torch.stack([b - a for a, b in pairwise(models)])
    size, whole = changes.shape[1], changes.sum(0)
    turns = torch.tensor([sign(1, number) for number in range(1, len(models))])
    turned = (turns[:, None] * changes).sum(0)
    inside: dict[str, list[float]] = {"every": [], "last": []}
    outside: dict[str, list[float]] = {"every": [], "last": []}
    for number in range(count + ABSENT):
        own = direction(size, number, seed)
        found = inside if number < count else outside
        if number % 2:
            found["every"].append(float(own @ turned))
        else:
            found["last"].append(float(own @ whole))
    return tuple({k: np.asarray(v) for k, v in side.items()} for side in (inside, outside))
