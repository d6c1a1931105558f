"""The attacker who knows of SPN reads labels and features at the public head.

The secret term never reaches that head's own gradient, whatever the batch.
"""

import time
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import one_hot

from fedpriv.attacks.analytic.head import head_of
from fedpriv.attacks.analytic.separation import separated
from fedpriv.attacks.inversion.attack import GradientInversion, Seen, Stopping, victims_of
from fedpriv.attacks.inversion.initialisers import INITIALISERS, given
from fedpriv.attacks.inversion.labels import from_sign
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


@dataclass(frozen=True, eq=False)
class ReadOut:
    """What the clean head says of V victims with B samples each.

    `features` (V, B, F), `labels` (V, B), `upstream` (V, B, F): dL/dφ if the loss were
    cross-entropy alone. `errors` (V,): how far features and labels are from explaining the head's
    gradient, relative to it.
    """

    names: tuple[str, ...]
    features: Tensor
    labels: Tensor
    upstream: Tensor
    errors: Tensor

    def rows(self, victims: Victims) -> list[int]:
        """Where these victims, perhaps repeated, stand."""
        return [self.names.index(name) for name in victims.names]

    def target(self, victims: Victims) -> State:
        """What a guess should give: the features, and the backbone's gradient as observed."""
        head = head_of(victims).path
        rest = {
            key: value for key, value in victims.gradient.items() if key.rpartition(".")[0] != head
        }
        return {FEATURES: self.features[self.rows(victims)].flatten(1), **rest}


def read_out(victims: Victims) -> ReadOut:
    """Labels, features and the public part of dL/dφ of every sample, off the head's gradient."""
    head = head_of(victims)
    assert head.bias is not None
    prefix = f"{head.path}." if head.path else ""
    own, own_bias = (victims.weights[f"{prefix}{name}"] for name in ("weight", "bias"))
    labels = from_sign(victims, [0] * len(victims), 0)
    count = len(victims)
    own, own_bias = own.expand(count, *own.shape[-2:]), own_bias.expand(count, own_bias.shape[-1])
    if victims.slots == 1:
        features = features_of(head.weight, head.bias).unsqueeze(1)
        sent = head.bias.unsqueeze(1)
        errors = [0.0] * count
    else:
        found = [
            separated(*each, labels[row])
            for row, each in enumerate(zip(head.weight, head.bias, own, own_bias, strict=True))
        ]
        features = torch.stack([one for one, _ in found])
        errors = [error for _, error in found]
        chances = (features @ own.mT + own_bias.unsqueeze(1)).softmax(2)
        sent = (chances - one_hot(labels, own.shape[1])) / victims.slots
    return ReadOut(victims.names, features, labels, sent @ own, torch.tensor(errors))


def _found(victims: Victims, x: Tensor, upstream: Tensor) -> Gradients:
    """Features of x, and the backbone's gradient for an upstream gradient (V, B, F)."""
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


def fitted_upstream(victims: Victims, read: ReadOut, x: Tensor, steps: int = 60) -> Tensor:
    """The dL/dφ that explains the backbone's gradient best if x is right: a quadratic problem."""
    target, distance = read.target(victims), relative(1.0)

    def evaluate(free: list[Tensor], rows: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        upstream = free[0].detach().requires_grad_()
        some = victims if rows is None else victims.rows(rows)
        aim = target if rows is None else {key: value[rows] for key, value in target.items()}
        losses = distance(_found(some, x if rows is None else x[rows], upstream), aim)
        return losses.detach(), list(torch.autograd.grad(losses.sum(), [upstream]))

    free = [read.upstream[read.rows(victims)].clone()]
    optimizer = lbfgs()(Setting(steps))
    for _ in range(steps):
        optimizer.step(free, evaluate)
    return free[0]


@dataclass(frozen=True)
class FeatureInversion:
    """Search for the x whose features are those read off the public head (it knows of SPN).

    First x by its features alone. Then also by the backbone's gradient, for which the upstream
    gradient dL/dφ of each sample is a second unknown, as the secret head's part of it is not known.
    Needs updates of one step on fewer samples than classes, and a head with a bias.

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
        _check(victims)
        read = read_out(victims)
        search = GradientInversion(
            relative(0.0),
            lbfgs(),
            labels=lambda some, restarts, seed: read.upstream[read.rows(some)].clone(),
            init=INITIALISERS[self.init],
            prior=tv(self.tv),
            match=Matching(read.target, _found),
            steps=self.steps,
            restarts=self.restarts,
            stopping=Stopping(patience=50),
            seed=self.seed,
            memory=self.memory,
        )
        first = self.steps / (self.steps + self.joint_steps)
        found = search(victims, told.within(0, first))
        if self.joint_steps and not told.stopped:
            upstream = fitted_upstream(victims, read, found.x, self.upstream_steps)
            found = replace(
                search,
                distance=relative(1.0),
                labels=lambda some, restarts, seed: upstream[read.rows(some)].clone(),
                init=given(found.x),
                prior=tv(self.joint_tv),
                steps=self.joint_steps,
                restarts=1,
            )(victims, told.within(first, 1))
        return replace(
            found,
            labels=read.labels[: len(found.x)],
            seconds=time.perf_counter() - started,
            partial=told.stopped,
            extra={**found.extra, "head_errors": read.errors.tolist()},
        )


def _check(victims: Victims) -> None:
    slots, classes = victims.slots, victims.facts.classes
    if head_of(victims).bias is None:
        why = "the last layer has no bias"
    elif slots >= classes:
        why = f"{slots} samples of {classes} classes are in one update"
    elif slots > 1 and victims.facts.local_steps > 1:
        why = f"an update is the sum of {victims.facts.local_steps} steps"
    else:
        return
    raise BadObservation(
        "features can be read off a last layer with a bias, from one step on fewer samples than "
        f"classes; here {why}."
    )
