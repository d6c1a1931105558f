"""Canaries with a worst-case gradient: each is one entry of the model, of the full clip norm.

No picture has such a gradient, but differential privacy promises its ε for every sample. A sample
with this gradient would be drawn into a step with the sampling rate, and then add the clip norm to
its entry of the sum. The plugin adds just that to the update, behind `dp`, whose noise is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.evidence.observation import Observation
from fedpriv.rng import generator
from fedpriv.state import State

HERE = "fedpriv.simulations.dp.worst_case"


@dataclass(frozen=True)
class Entries:
    """Which entry of all weights a canary is, its client, and whether it is in: (m,) each."""

    entry: Tensor
    owner: Tensor
    inside: Tensor


def drawn_entries(weights: int, count: int, clients: int, seed: int) -> Entries:
    draw = generator(seed, "worst case")
    entry = torch.randperm(weights, generator=draw)[:count]
    inside = torch.rand(count, generator=draw) < 0.5
    return Entries(entry, torch.arange(count) % clients, inside)


@dataclass(frozen=True)
class GradientCanaries(PrivacyPlugin):
    """Adds what the canaries of this client would have added to its steps of plain SGD."""

    count: int
    clients: int
    draw: int
    max_grad_norm: float = 1.0

    def on_update(self, update: State, job: Job) -> State:
        names = [name for name, _ in job.shared.named_parameters()]
        sizes = [update[name].numel() for name in names]
        found = drawn_entries(sum(sizes), self.count, self.clients, self.draw)
        mine = found.entry[found.inside & (found.owner == job.partition)]
        rate = min(1.0, job.training.batch_size / len(job.x))
        steps = job.training.steps_for(len(job.x))
        chance = generator(self.draw, "taken", job.partition, job.round)
        taken = (torch.rand(steps, len(mine), generator=chance) < rate).sum(0).float()
        each = job.training.lr_at(job.round) * self.max_grad_norm / (rate * len(job.x))
        flat = torch.cat([update[name].flatten() for name in names])
        flat[mine] -= taken * each
        parts = flat.split(sizes)
        changed = {n: p.reshape(update[n].shape) for n, p in zip(names, parts, strict=True)}
        return {**update, **changed}


def scores(evidence: Sequence[Observation], names: Sequence[str], found: Entries) -> Tensor:
    """(2, m): the entry in the owner's updates less that of the others, and how it changes."""
    rounds: dict[int, dict[int, Tensor]] = {}
    for seen in evidence:
        flat = -torch.cat([seen.delta[name].flatten() for name in names])
        rounds.setdefault(int(seen.round), {})[int(seen.node)] = flat[found.entry]
    rows = []
    for _, asked in sorted(rounds.items()):
        total = torch.stack([*asked.values()]).sum(0)
        row = torch.zeros(len(found.entry))
        for client, own in asked.items():
            others = (total - own) / max(1, len(asked) - 1)
            mine = found.owner == client
            row[mine] = (own - others)[mine]
        rows.append(row)
    table = torch.stack(rows)
    return torch.stack([table.sum(0), ((table - table.mean(0)) ** 2).sum(0)])
