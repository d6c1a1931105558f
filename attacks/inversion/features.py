"""The attacker who knows of SPN reads label and features at the public head.

The secret term never reaches that head's own gradient.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from fedpriv.attacks.analytic.head import head_of
from fedpriv.attacks.inversion.attack import GradientInversion, Seen, Stopping, victims_of
from fedpriv.attacks.inversion.initialisers import INITIALISERS, given
from fedpriv.attacks.inversion.labels import evidence, sign_counts
from fedpriv.attacks.inversion.lbfgs import lbfgs
from fedpriv.attacks.inversion.matching import Matching
from fedpriv.attacks.inversion.optimizers import Setting
from fedpriv.attacks.inversion.priors import tv
from fedpriv.engine.gradients import Distance, Gradients, dense
from fedpriv.errors import BadObservation
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.models.heads import Backbone, last_linear
from fedpriv.progress import Progress, Told, go_on
from fedpriv.state import State

FEATURES = "φ(x)"


def features_of(weight: Tensor, bias: Tensor) -> Tensor:
    """φ(x), (V, F), from ∇W = δ ⊗ φ and ∇b = δ, by least squares over the classes."""
    return torch.einsum("vc,vcf->vf", bias, weight) / bias.square().sum(1, keepdim=True)


def upstream_gradient(victims: Victims, restarts: Sequence[int], seed: int) -> Tensor:
    """dL/dφ if the loss were cross-entropy alone, Wᵀδ: where the search for the true one starts."""
    head = head_of(victims)
    assert head.bias is not None
    own = victims.weights[f"{head.path}.weight" if head.path else "weight"]
    return (head.bias.unsqueeze(1) @ own.expand(len(victims), -1, -1)).clone()


def _target(victims: Victims) -> State:
    head = head_of(victims)
    assert head.bias is not None
    rest = {
        key: value for key, value in victims.gradient.items() if key.rpartition(".")[0] != head.path
    }
    return {FEATURES: features_of(head.weight, head.bias), **rest}


def _found(victims: Victims, x: Tensor, upstream: Tensor) -> Gradients:
    """Features of x, and the backbone's gradient for an upstream gradient (V, 1, F)."""
    engine = victims.engine.backbone() if victims.engine is not None else None
    if engine is not None:
        features, gradients = engine.output_and_gradients_at(x, upstream)
        return {FEATURES: features.flatten(1), **gradients}
    backbone = Backbone(victims.model, last_linear(victims.model)[1])
    head = head_of(victims)

    def one(weights: State, buffers: State, x: Tensor, u: Tensor) -> tuple[State, Tensor]:
        def product(w: State) -> tuple[Tensor, Tensor]:
            state = {f"model.{key}": value for key, value in {**buffers, **w}.items()}
            features = functional_call(backbone, state, (x,))
            return (features * u).sum(), features

        found: tuple[State, Tensor] = grad(product, has_aux=True)(weights)
        return found

    axis = None if victims.shared else 0
    mapped = vmap(one, in_dims=(axis, axis, 0, 0))
    found, features = mapped(victims.weights, victims.buffers, x, upstream)
    rest = {key: value for key, value in found.items() if key.rpartition(".")[0] != head.path}
    return {FEATURES: features.flatten(1), **rest}


by_features = Matching(_target, _found)


def relative(weight: float) -> Distance:
    """‖φ − φ*‖²/‖φ*‖² + weight · ‖∇ − ∇*‖²/‖∇*‖², the second over the backbone's parameters."""

    def distance(found: Gradients, target: State) -> Tensor:
        aim = target[FEATURES]
        gap = (dense(found[FEATURES]) - aim).square().sum(1) / aim.square().sum(1)
        if not weight:
            return gap
        keys = [key for key in target if key != FEATURES]
        apart = [(dense(found[key]) - target[key]).square().flatten(1).sum(1) for key in keys]
        sizes = [target[key].square().flatten(1).sum(1) for key in keys]
        return gap + weight * torch.stack(apart).sum(0) / torch.stack(sizes).sum(0)

    return distance


def fitted_upstream(victims: Victims, x: Tensor, steps: int = 60) -> Tensor:
    """The dL/dφ that explains the backbone's gradient best if x is right: a quadratic problem."""
    target, distance = _target(victims), relative(1.0)

    def evaluate(free: list[Tensor], rows: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        upstream = free[0].detach().requires_grad_()
        some = victims if rows is None else victims.rows(rows)
        aim = target if rows is None else {key: value[rows] for key, value in target.items()}
        losses = distance(_found(some, x if rows is None else x[rows], upstream), aim)
        return losses.detach(), list(torch.autograd.grad(losses.sum(), [upstream]))

    free = [upstream_gradient(victims, [0] * len(victims), 0)]
    optimizer = lbfgs()(Setting(steps))
    for _ in range(steps):
        optimizer.step(free, evaluate)
    return free[0]


@dataclass(frozen=True)
class FeatureInversion:
    """Search for the x whose features are those read off the public head (it knows of SPN).

    First x by its features alone. Then also by the backbone's gradient, for which the upstream
    gradient dL/dφ is a second unknown, as the secret head's part of it is not known. Needs one
    sample per update and a head with a bias.

    Args:
        tv: Weight of total variation in the search by features.
        steps: Steps of the search by features.
        joint_steps: Steps of the search by features and the backbone's gradient.
        joint_tv: Weight of total variation in that second search.
        upstream_steps: Steps in which the upstream gradient is fitted alone before it.
        restarts: Searches from different starts. The one that explains the update best is kept.
        init: What the search starts from: noise, noise in blocks ("patterned"), a black or a grey
            picture.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
    """

    tv: float = 1e-4
    steps: int = 300
    joint_steps: int = 700
    joint_tv: float = 1e-6
    upstream_steps: int = 60
    restarts: int = 2
    init: Literal["gaussian", "uniform", "patterned", "black", "grey"] = "patterned"
    seed: int = 0
    memory: float = 1.5

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        head = head_of(victims)
        if victims.slots != 1 or head.bias is None:
            why = f"of {victims.slots} samples" if head.bias is not None else "without a bias there"
            raise BadObservation(
                "features can be read off the last layer of updates of one sample, with a bias; "
                f"not {why}."
            )
        search = GradientInversion(
            relative(0.0),
            lbfgs(),
            labels=upstream_gradient,
            init=INITIALISERS[self.init],
            prior=tv(self.tv),
            match=by_features,
            steps=self.steps,
            restarts=self.restarts,
            stopping=Stopping(patience=50),
            seed=self.seed,
            memory=self.memory,
        )
        first = self.steps / (self.steps + self.joint_steps)
        found = search(victims, told.within(0, first))
        if self.joint_steps and not told.stopped:
            upstream = fitted_upstream(victims, found.x, self.upstream_steps)
            found = replace(
                search,
                distance=relative(1.0),
                labels=lambda some, restarts, seed: upstream[_numbers(some, victims)],
                init=given(found.x),
                prior=tv(self.joint_tv),
                steps=self.joint_steps,
                restarts=1,
            )(victims, told.within(first, 1))
        labels = sign_counts(evidence(head.weight, head.bias)).unsqueeze(1)
        seconds = time.perf_counter() - started
        return replace(found, labels=labels[: len(found.x)], seconds=seconds, partial=told.stopped)


def _numbers(some: Victims, victims: Victims) -> list[int]:
    return [victims.names.index(name) for name in some.names]
