"""Shadow clients: local training as a client does it, on samples that the attacker chose.

A server knows the model that it sent and how clients train. It repeats that with samples of its
own, of which it knows everything, and learns how an update shows what was in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fedpriv.attacks.analytic.head import linear_heads
from fedpriv.engine.replay import step_rule
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.state import State


def shuffled(samples: int, batch: int, steps: int, stream: torch.Generator) -> list[Tensor]:
    """The samples of each local step: a new order for every pass, short at its end."""
    found: list[Tensor] = []
    while len(found) < steps:
        found += torch.randperm(samples, generator=stream).split(batch)
    return found[:steps]


def trained(seen: Observation, x: Tensor, y: Tensor, stream: torch.Generator) -> State:
    """The update of a client that has these samples and trains as the observed one did."""
    model = bound(seen).train(seen.mode == "train")
    weights = {key: seen.sent[key].clone() for key, _ in model.named_parameters()}
    buffers = {key: seen.sent[key].clone() for key, _ in model.named_buffers() if key in seen.sent}
    step = step_rule(seen.optimiser, seen.lr, seen.momentum, seen.weight_decay, seen.nesterov)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=stream)))  # for dropout
        for part in shuffled(len(y), seen.batch_size, seen.local_steps, stream):
            free = {key: value.requires_grad_() for key, value in weights.items()}
            loss = cross_entropy(functional_call(model, (free, buffers), (x[part],)), y[part])
            found = torch.autograd.grad(loss, list(free.values()))
            plain = {key: value.detach() for key, value in weights.items()}
            weights = step(plain, dict(zip(free, found, strict=True)))
    return {key: value.detach() - seen.sent[key] for key, value in weights.items()}


def bound(seen: Observation) -> nn.Module:
    if seen.model is None:
        raise BadObservation(f"{seen.name} has no model yet: bind one with observation.on(model).")
    return seen.model


def head_keys(seen: Observation) -> list[str]:
    """The parameters of the last linear layer."""
    victims = stack([seen], fast=False)
    heads = linear_heads(victims)
    if not heads:
        raise BadObservation(f"The model has no linear layer with {seen.classes} outputs.")
    prefix = f"{heads[-1]}." if heads[-1] else ""
    return [key for key in victims.weights if key.startswith(prefix)]


def flat(delta: State, keys: Sequence[str]) -> Tensor:
    return torch.cat([delta[key].flatten() for key in keys])


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear map from features (N, P) to targets (N, D), its penalty chosen by leaving one out.

    `error` (D,) is the mean squared error of the samples left out.
    """

    features: Tensor
    centre: Tensor
    scale: Tensor
    weights: Tensor  # (N, D), of the samples
    offset: Tensor
    error: Tensor

    @classmethod
    def fitted(cls, features: Tensor, targets: Tensor) -> "Ridge":
        features, targets = features.double(), targets.double()
        centre = features.mean(0)
        scale = (features - centre).square().mean(0).sum().sqrt().clamp_min(1e-12)
        x, offset = (features - centre) / scale, targets.mean(0)
        gram = x @ x.T
        values, vectors = torch.linalg.eigh(gram)
        rotated = vectors.T @ (targets - offset)
        best: tuple[Tensor, Tensor] | None = None
        for penalty in torch.logspace(-6, 2, 25, dtype=torch.float64):
            shrunk = 1 / (values.clamp_min(0) + penalty)
            weights = vectors @ (shrunk[:, None] * rotated)
            # The mean is fitted too, which takes 1/N of each sample.
            inverse = (vectors.square() * shrunk).sum(1) - 1 / (len(x) * penalty)
            left_out = (weights / inverse.clamp_min(1e-12)[:, None]).square().mean(0)
            if best is None or left_out.sum() < best[1].sum():
                best = weights, left_out
        assert best is not None
        return cls(x, centre, scale, best[0], offset, best[1])

    def __call__(self, features: Tensor) -> Tensor:
        """(N, D) for features (N, P)."""
        return self.offset + self.slope(features.double() - self.centre)

    def slope(self, change: Tensor) -> Tensor:
        """(N, D) how targets change with features, for changes (N, P)."""
        return (change.double() / self.scale) @ self.features.T @ self.weights
