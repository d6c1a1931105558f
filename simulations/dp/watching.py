"""Scores of canaries: how much a curious server, or an owner of the last model, believes in each.

From updates: how much of the canary's own clipped gradient is in a client's update, summed over
rounds (arXiv 2305.08846, sect. 6). Gradients of samples resemble each other, so that all canaries
of a client, and samples that nobody trained on, are explained together. From the last model: by how
much training lowered the loss of the canary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedpriv.evidence.observation import Observation
from fedpriv.state import State

CHUNK = 100
BESIDE = 250  # samples that nobody trained on, which canaries are told apart from
LEAST_RIDGE = 1e-3  # without noise, gradients are still no exact sum


@dataclass(frozen=True)
class Steps:
    """What everybody knows of the training: the clip norm, and what scales a sum of gradients."""

    clip: float
    noise: float  # on the sum of an update's steps, in clip norms
    count: int  # steps of one update
    rate: float  # with which a step takes a sample
    each: Callable[[int], float]  # round -> by how much one gradient of a sum moves a weight

    @property
    def ridge(self) -> float:
        """The variance of the noise over that of a canary's part, which is in by a coin."""
        return max(LEAST_RIDGE, self.noise**2 / (self.rate * self.count / 2))


def gradients(model: nn.Module, state: State, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """(m, P): each sample's gradient at a model, clipped, in clip norms."""
    names = [name for name, _ in model.named_parameters()]
    fixed = {k: v for k, v in state.items() if k not in names}

    def loss(parameters: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        out = functional_call(model, {**parameters, **fixed}, (one[None],))
        return nn.functional.cross_entropy(out, label[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))
    parameters = {name: state[name].float() for name in names}
    found = []
    for start in range(0, len(x), CHUNK):
        part = each(parameters, x[start : start + CHUNK], y[start : start + CHUNK])
        flat = torch.cat([part[name].flatten(1) for name in names], dim=1)
        found.append(flat / flat.norm(dim=1, keepdim=True).clamp_min(clip))
    return torch.cat(found)


def parts_of(update: Tensor, rows: Tensor, ridge: float) -> Tensor:
    """(m,): how often each row is in the sum `update`, by ridge regression on all rows."""
    together = (rows @ rows.T).double()
    together += ridge * torch.eye(len(rows), dtype=torch.float64)
    parts: Tensor = torch.linalg.solve(together, (rows @ update).double())
    return parts.float()


def moved(seen: Observation, names: Sequence[str]) -> Tensor:
    """(P,): what a client's update did to the model, against the gradient."""
    return -torch.cat([seen.delta[name].flatten() for name in names])


def from_updates(
    model: nn.Module,
    evidence: Sequence[Observation],
    canaries: tuple[Tensor, Tensor, Tensor],
    beside: tuple[Tensor, Tensor],
    steps: Steps,
) -> tuple[Tensor, Tensor]:
    """Two scores of each canary (m,): its part in its owner's updates, and in their changes from
    round to round.

    `canaries` are samples, labels and owners; `beside` samples and labels that nobody trained on.
    The second score sees through noise that is the same in every round.
    """
    x, y, owner = canaries
    names = [name for name, _ in model.named_parameters()]
    model.eval()
    rounds: dict[int, dict[int, Observation]] = {}
    for seen in evidence:
        rounds.setdefault(int(seen.round), {})[int(seen.node)] = seen
    along, changes = torch.zeros(len(x)), torch.zeros(len(x))
    before: dict[int, Tensor] = {}
    for number, asked in sorted(rounds.items()):
        sent = next(iter(asked.values())).sent
        own = gradients(model, sent, x, y, steps.clip)
        others = gradients(model, sent, *beside, steps.clip)
        for client, seen in asked.items():
            update = moved(seen, names) / (steps.each(number) * steps.clip)
            mine = owner == client
            rows, count = torch.cat([own[mine], others]), int(mine.sum())
            along[mine] += parts_of(update, rows, steps.ridge)[:count]
            if client in before:
                gap = parts_of(update - before[client], rows, LEAST_RIDGE)[:count]
                changes[mine] += gap**2
            before[client] = update
    return along, changes


def unexplained(change: Tensor, rows: Tensor) -> Tensor:
    """(P,): the change of a model less what the rows (k, P), which anybody can compute, explain."""
    parts = torch.linalg.lstsq(rows.T.double(), change.double()[:, None]).solution[:, 0]
    left: Tensor = change.double() - rows.T.double() @ parts
    return left.float()


def learned(model: nn.Module, states: Sequence[State], x: Tensor, y: Tensor) -> Tensor:
    """(k, P): what a class teaches on average at each of some models, from samples at hand."""
    model.eval()
    found = []
    for state in states:
        each = gradients(model, state, x, y, 1.0)
        found += [each[y == label].mean(0) for label in y.unique()]
    return torch.stack(found)


def from_model(model: nn.Module, first: State, last: State, x: Tensor, y: Tensor) -> Tensor:
    """(m,): how much lower the loss of each canary is at the last model than at the first."""
    model.eval()

    def losses(state: State) -> Tensor:
        out = functional_call(model, dict(state), (x,))
        return nn.functional.cross_entropy(out, y, reduction="none")

    with torch.no_grad():
        return losses(first) - losses(last)


def shortest_difference(
    model: nn.Module, evidence: Sequence[Observation]
) -> dict[int, tuple[float, int]]:
    """By client: the smallest mean square of a difference of two of its updates, and the size."""
    names = [name for name, _ in model.named_parameters()]
    own: dict[int, list[Tensor]] = {}
    for seen in evidence:
        own.setdefault(int(seen.node), []).append(moved(seen, names))
    found = {}
    for client, updates in own.items():
        gaps = [
            float(((a - b) ** 2).mean()) for i, a in enumerate(updates) for b in updates[i + 1 :]
        ]
        if gaps:
            found[client] = (min(gaps), len(updates[0]))
    return found
