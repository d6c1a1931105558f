"""Canaries with a worst-case gradient: each is one entry of the model, of the full clip norm.

No picture has such a gradient, but differential privacy promises its ε for every sample. A sample
with this gradient would be drawn into a step with the sampling rate, and then add the clip norm to
its entry of the sum. The plugin adds just that to the update, behind `dp`, whose noise is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from scipy.stats import binom
from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.evidence.observation import Observation
from fedpriv.rng import generator
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, first_state, model_of
from fedpriv.simulations.dp.watching import BESIDE, LEAST_RIDGE, Steps, learned
from fedpriv.state import State

HERE = "fedpriv.simulations.dp.worst_case"


@dataclass(frozen=True)
class Entries:
    """Which entry of all weights a canary is, its client, and whether it is in: (m,) each."""

    entry: Tensor
    owner: Tensor
    inside: Tensor


@lru_cache(maxsize=2)
def quiet_first(text: str) -> Tensor:
    """(P,): the entries of a scenario's model, first those that other samples move least.

    What samples do to an entry hides its canary as noise does. Whoever places canaries knows the
    first model, and has samples of the same kind: those of the test.
    """
    scenario = Scenario.of({"scenario": text})
    data = dataset_of(scenario)
    known = data.normalised(data.x_test[:BESIDE]), data.y_test[:BESIDE]
    moves = learned(model_of(scenario), [first_state(scenario)], *known)
    return moves.abs().max(0).values.argsort(stable=True)


def drawn_entries(order: Tensor, count: int, clients: int, seed: int) -> Entries:
    """The first `count` entries of `order`, each with a client and a coin."""
    draw = generator(seed, "worst case")
    entry = order[:count][torch.randperm(min(count, len(order)), generator=draw)]
    inside = torch.rand(len(entry), generator=draw) < 0.5
    return Entries(entry, torch.arange(len(entry)) % clients, inside)


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
        order = quiet_first(job.scenario.text())
        found = drawn_entries(order, self.count, self.clients, self.draw)
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


def by_round(
    evidence: Sequence[Observation], names: Sequence[str], found: Entries, steps: Steps
) -> tuple[Tensor, float]:
    """(R, m): each canary's entry in its owner's updates less a part of the others', in clip norms,
    and the variance of the noise on it.

    The others' updates show where samples move an entry, and bring noise of their own. The part of
    them that is taken off is the best one for both: what samples do, over that plus the noise.
    """
    rounds: dict[int, dict[int, Tensor]] = {}
    for seen in evidence:
        flat = -torch.cat([seen.delta[name].flatten() for name in names])
        scale = steps.each(int(seen.round)) * steps.clip
        rounds.setdefault(int(seen.round), {})[int(seen.node)] = flat[found.entry] / scale
    mine, others, fewest = [], [], min(len(asked) for asked in rounds.values()) - 1
    for _, asked in sorted(rounds.items()):
        total = torch.stack([*asked.values()]).sum(0)
        own = torch.zeros(len(found.entry))
        for client, values in asked.items():
            own[found.owner == client] = values[found.owner == client]
        mine.append(own)
        others.append((total - own) / max(1, len(asked) - 1))
    table, beside = torch.stack(mine), torch.stack(others)
    noise = len(rounds) * steps.noise**2 / max(1, fewest)
    moved = max(0.0, float((beside.sum(0) ** 2).mean()) - noise)
    part = moved / (moved + noise) if fewest and moved + noise > 0 else 0.0
    table = table - part * beside
    return table, steps.noise**2 * (1 + part**2 / max(1, fewest))


def scores(table: Tensor, steps: Steps, variance: float) -> Tensor:
    """(3, m): the sum over rounds; how it changes from round to round; and the logarithm of how
    likely it is with the canary in.
    """
    changes = ((table - table.mean(0)) ** 2).sum(0)
    ratios = torch.stack([log_ratio(row, steps, variance) for row in table])
    return torch.stack([table.sum(0), changes, ratios.sum(0)])


def log_ratio(value: Tensor, steps: Steps, variance: float) -> Tensor:
    """log of N(k, v) over N(0, v) at `value`, where k is how many of the steps took the canary.

    A step takes it with the sampling rate. The sum of entries would lose what single rounds show.
    """
    taken = torch.arange(steps.count + 1, dtype=torch.float64)
    chance = torch.from_numpy(binom.logpmf(taken.numpy(), steps.count, steps.rate))
    less = (2 * taken * value.double()[:, None] - taken**2) / (2 * max(variance, LEAST_RIDGE))
    return torch.logsumexp(chance + less, dim=1).float()
