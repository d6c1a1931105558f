"""Scores of canaries: how much a curious server, or an owner of the last model, believes in each.

From updates: the part of a client's updates that lies along the canary's own gradient, summed over
rounds (arXiv 2305.08846, sect. 6; for clients arXiv 2302.03098). From the last model: by how much
training lowered the loss of the canary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedpriv.evidence.observation import Observation
from fedpriv.state import State

CHUNK = 100


def directions(model: nn.Module, state: State, x: Tensor, y: Tensor) -> Tensor:
    """(m, P): each sample's gradient at a model, of norm 1."""
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
        found.append(flat / flat.norm(dim=1, keepdim=True).clamp_min(1e-12))
    return torch.cat(found)


def moved(seen: Observation, names: Sequence[str]) -> Tensor:
    """(P,): what a client's update did to the model, against the gradient."""
    return -torch.cat([seen.delta[name].flatten() for name in names])


def from_updates(
    model: nn.Module, evidence: Sequence[Observation], x: Tensor, y: Tensor, owner: Tensor
) -> tuple[Tensor, Tensor]:
    """Two scores of each canary (m,): along its owner's updates, and along their changes from
    round to round.

    The second score sees through noise that is the same in every round.
    """
    names = [name for name, _ in model.named_parameters()]
    model.eval()
    rounds: dict[int, dict[int, Observation]] = {}
    for seen in evidence:
        rounds.setdefault(int(seen.round), {})[int(seen.node)] = seen
    clients = sorted({int(seen.node) for seen in evidence})
    updates: dict[int, list[Tensor]] = {client: [] for client in clients}
    towards: dict[int, list[Tensor]] = {client: [] for client in clients}
    for _, asked in sorted(rounds.items()):
        all_moved = {client: moved(seen, names) for client, seen in asked.items()}
        total = torch.stack([*all_moved.values()]).sum(0)
        each = directions(model, next(iter(asked.values())).sent, x, y)
        for client, update in all_moved.items():
            # What everybody learned says nothing of a canary: the mean of the others is taken off.
            others = (total - update) / max(1, len(asked) - 1)
            updates[client].append(update - others if len(asked) > 1 else update)
            towards[client].append(each[owner == client])
    plain, changes = torch.zeros(len(x)), torch.zeros(len(x))
    for client in clients:
        mine = owner == client
        if not mine.any():
            continue
        mean = torch.stack(updates[client]).mean(0)
        middle = torch.stack(towards[client]).mean(0)
        for update, own in zip(updates[client], towards[client], strict=True):
            plain[mine] += own @ update
            changes[mine] += (own - middle) @ (update - mean)
    return plain, changes


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
