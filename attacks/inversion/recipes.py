"""Inversions from options that people type. A row of the catalogue sets other defaults."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from torch import Tensor

from fedpriv.attacks.inversion.attack import GradientInversion, Stopping
from fedpriv.attacks.inversion.exact import Exact
from fedpriv.attacks.inversion.initialisers import INITIALISERS
from fedpriv.attacks.inversion.labels import LabelGuess, from_sign, joint
from fedpriv.attacks.inversion.lbfgs import lbfgs
from fedpriv.attacks.inversion.matching import by_gradient, by_replay
from fedpriv.attacks.inversion.optimizers import (
    MakeOptimizer,
    adam,
    annealed,
    boxed,
    decayed,
    sgd,
)
from fedpriv.attacks.inversion.optimizers import signed as signs_of
from fedpriv.attacks.inversion.polishing import Polished
from fedpriv.attacks.inversion.pooling import PooledInversion
from fedpriv.attacks.inversion.priors import Prior, batch_statistics, flat, total
from fedpriv.attacks.inversion.priors import group as agreement
from fedpriv.attacks.inversion.priors import norm as smallness
from fedpriv.attacks.inversion.priors import tv as smoothness
from fedpriv.attacks.inversion.race import Strongest
from fedpriv.attacks.inversion.restoring import Restored
from fedpriv.attacks.inversion.through_policy import PolicyInversion, Transform
from fedpriv.engine.gradients import Distance, cosine, l1, l2, layerwise_cosine, where_shared
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Public
from fedpriv.policies.transforms import ENHANCEMENT

DISTANCES: dict[str, Distance] = {
    "l2": l2,
    "l1": l1,
    "cosine": cosine,
    "layer-cosine": layerwise_cosine,
}
LABELS: dict[str, LabelGuess] = {"joint": joint, "read": from_sign}


def inversion(
    distance: Literal["l2", "l1", "cosine", "layer-cosine"] = "cosine",
    optimiser: Literal["adam", "sgd", "lbfgs"] = "adam",
    lr: float = 0.1,
    signed: bool = False,
    schedule: Literal["constant", "steps", "cosine"] = "constant",
    box: bool = False,
    labels: Literal["read", "joint"] = "read",
    init: Literal["gaussian", "uniform", "patterned", "black", "grey"] = "gaussian",
    tv: float = 0.0,
    norm: float = 0.0,
    bn: float = 0.0,
    group: float = 0.0,
    replay: bool = False,
    shared_only: bool = False,
    steps: int = 1000,
    restarts: int = 1,
    consensus: bool = False,
    coarse: int = 1,
    history: int = 20,
    tolerance: float = 0.0,
    patience: int = 0,
    seed: int = 0,
    memory: float = 1.5,
) -> GradientInversion:
    """A gradient inversion, from its options: search for the input whose gradient was seen.

    Args:
        distance: How the gradient of a guess is compared with the observed one: by angle, or by
            squared or absolute differences.
        optimiser: Who searches.
        lr: Step size of the search.
        signed: Use only the sign of each slope, as many published attacks do.
        schedule: How the step size changes: never, in three steps down, or along a cosine to zero.
        box: Keep guesses inside the range that pictures have.
        labels: "read" takes the labels from the last layer's update, "joint" searches for them too.
        init: What the search starts from: noise, noise in blocks ("patterned"), a black or a grey
            picture.
        tv: Weight of total variation: larger gives smoother pictures.
        norm: Weight of a prior that prefers small values.
        bn: Weight of a prior that prefers the feature statistics of the model's BatchNorm layers.
        group: Weight of a prior that wants the restarts of a victim to agree.
        replay: Match an update of several local steps by training on the guess as the client did.
        shared_only: Compare only where the update is not zero.
        steps: Steps of the search.
        restarts: Searches from different starts. The one that explains the update best is kept.
        consensus: Take the mean of the restarts instead of the best one.
        coarse: Search a picture this many times smaller for half of the steps; 1 does not.
        history: How many steps L-BFGS remembers.
        tolerance: A victim is finished when its loss is this part of the first one; 0 never.
        patience: A victim is finished when its loss hardly fell in this many steps; 0 never.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
    """
    makers: dict[str, MakeOptimizer] = {
        "adam": adam(lr),
        "sgd": sgd(lr),
        "lbfgs": lbfgs(lr, history),
    }
    make = signs_of(makers[optimiser]) if signed else makers[optimiser]
    make = {"constant": make, "steps": decayed(make), "cosine": annealed(make)}[schedule]
    weights: list[tuple[float, Prior]] = [
        (tv, smoothness(tv)),
        (norm, smallness(norm)),
        (bn, batch_statistics(bn)),
        (group, agreement(group)),
    ]
    priors = [prior for weight, prior in weights if weight]
    return GradientInversion(
        where_shared(DISTANCES[distance]) if shared_only else DISTANCES[distance],
        boxed(make) if box else make,
        labels=LABELS[labels],
        init=INITIALISERS[init],
        prior=total(*priors) if priors else flat,
        match=by_replay if replay else by_gradient,
        steps=steps,
        restarts=restarts,
        consensus=consensus,
        coarse=coarse,
        stopping=Stopping(tolerance, patience),
        seed=seed,
        memory=memory,
    )


def exact(
    labels: Literal["read", "joint"] = "joint",
    init: Literal["gaussian", "uniform", "patterned", "black", "grey"] = "patterned",
    lr: float = 1.0,
    history: int = 100,
    steps: int = 1000,
    finish: int = 2000,
    restarts: int = 2,
    tolerance: float = 0.0,
    patience: int = 100,
    seed: int = 0,
    memory: float = 1.5,
) -> Exact:
    """L-BFGS on the squared distance without a prior, and then some steps in doubles.

    Only victims whose update the first search explains get the second one.

    Args:
        labels: "read" takes the labels from the last layer's update, "joint" searches for them too.
        init: What the search starts from: noise, noise in blocks ("patterned"), a black or a grey
            picture.
        lr: Step size of the search.
        history: How many steps L-BFGS remembers.
        steps: Steps of the first search, in single precision.
        finish: Most steps of the second search, in double precision.
        restarts: Searches from different starts. The one that explains the update best is kept.
        tolerance: A victim is finished when its loss is this part of the first one; 0 never.
        patience: A victim is finished when its loss hardly fell in this many steps; 0 never.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
    """
    search = inversion(
        distance="l2",
        optimiser="lbfgs",
        labels=labels,
        init=init,
        lr=lr,
        history=history,
        steps=steps,
        restarts=restarts,
        tolerance=tolerance,
        patience=patience,
        seed=seed,
        memory=memory,
    )
    return Exact(search, min(finish, 2 * steps))


# Those that were best somewhere, the most often good ones first: signs, total variation, coarse.
CANDIDATES: dict[str, tuple[bool, float, int]] = {
    "signed, tv 0.01, coarse": (True, 0.01, 4),
    "signed, tv 0.01": (True, 0.01, 1),
    "signed, tv 0.1": (True, 0.1, 1),
    "signed, tv 0.003, coarse": (True, 0.003, 4),
    "signed, tv 0.03, coarse": (True, 0.03, 4),
    "signed, tv 0.1, coarse": (True, 0.1, 4),
    "unsigned, tv 0.003, coarse": (False, 0.003, 4),
    "signed, tv 0.03": (True, 0.03, 1),
    "unsigned, tv 0.03, coarse": (False, 0.03, 4),
    "unsigned, tv 0.1": (False, 0.1, 1),
}


def strongest(
    steps: int = 600,
    polish: int = 600,
    budget: float = 0.35,
    controls: int = 4,
    only: str = "",
    replay: bool = True,
    seed: int = 0,
    memory: float = 1.5,
    public: Tensor | None = None,
) -> Strongest:
    """Races settings on planted clients, runs the winner, and finishes by L-BFGS.

    Args:
        steps: Steps of the winner.
        polish: Most steps of L-BFGS at the end. Where the update is then explained, up to four
            times as many follow in double precision.
        budget: What the race may cost, as a part of the winner's steps.
        controls: Planted clients, whose samples the attacker knows, that settings are raced on.
        only: The setting that won an earlier race on the same protocol; "" races all.
        replay: Match an update of several local steps where there were any.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
        public: Samples of the same kind that the attacker has.
    """

    def candidate(signed: bool, tv: float, coarse: int) -> Polished:
        search = inversion(
            lr=0.2 if signed else 0.1,
            signed=signed,
            schedule="cosine",
            box=True,
            tv=tv,
            coarse=coarse,
            replay=replay,
            steps=steps,
            seed=seed,
            memory=memory,
        )
        return Polished(search, polish)

    if only and only not in CANDIDATES:
        raise BadOption(f"only must be one of: {'; '.join(CANDIDATES)}. Got '{only}'.")
    runners = {name: candidate(*CANDIDATES[name]) for name in ([only] if only else CANDIDATES)}
    return Strongest(runners, budget, controls, seed, public)


def restored(
    own: Public,
    lr: float = 0.2,
    tv: float = 0.1,
    replay: bool = True,
    steps: int = 200,
    planted: int = 512,
    epochs: int = 30,
    width: int = 24,
    seed: int = 0,
    memory: float = 1.5,
) -> Restored:
    """Searches, and repairs what it found by a network trained on planted clients.

    Args:
        own: Samples of the same kind that the attacker has.
        lr: Step size of the search.
        tv: Weight of total variation: larger gives smoother pictures.
        replay: Match an update of several local steps where there were any.
        steps: Steps of the search.
        planted: Pictures of its own that the attacker plants and attacks, to learn from them.
        epochs: How often the network sees every planted picture.
        width: Channels of the network's first layer.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
    """
    search = inversion(
        lr=lr,
        signed=True,
        schedule="cosine",
        box=True,
        tv=tv,
        replay=replay,
        steps=steps,
        seed=seed,
        memory=memory,
    )
    return Restored(search, own, planted, epochs, width, seed)


def pooled_inversion(
    tv: float = 0.01,
    lr: float = 0.1,
    steps: int = 1000,
    restarts: int = 1,
    seed: int = 0,
    memory: float = 1.5,
) -> PooledInversion:
    """Scale-free matching with a prior over all rounds given: the attacker who knows of noise.

    Args:
        tv: Weight of total variation: larger gives smoother pictures.
        lr: Step size of the search.
        steps: Steps of the search.
        restarts: Searches from different starts. The one that explains the update best is kept.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
    """
    return PooledInversion(
        inversion(
            signed=True,
            schedule="cosine",
            box=True,
            tv=tv,
            lr=lr,
            steps=steps,
            restarts=restarts,
            seed=seed,
            memory=memory,
        )
    )


def policy_inversion(
    policy: str = "",
    tv: float = 1e-3,
    lr: float = 0.1,
    steps: int = 1000,
    pilot: float = 0.2,
    translation: bool = True,
    restarts: int = 1,
    seed: int = 0,
    memory: float = 1.5,
    transforms: Sequence[Transform] = (),
    probability: float = 1.0,
    enhancement: float = ENHANCEMENT,
) -> PolicyInversion:
    """Searches the original through what an augmentation policy may have done to it.

    Args:
        policy: The client's augmentation policy. Default: that of the scenario's plugin `augment`.
        tv: Weight of total variation: larger gives smoother pictures.
        lr: Step size of the search.
        steps: Steps of the search.
        pilot: Part of the steps for which each possible transformation is tried before the best is
            searched to the end.
        translation: Search also for a move of the picture by an unknown distance.
        restarts: Searches from different starts. The one that explains the update best is kept.
        seed: Seed of everything that the attack draws.
        memory (GB): How much memory may be used. It bounds how many victims are attacked at once.
        transforms: Differentiable transformations to search through, instead of the policy's.
        probability: The chance that clients apply a transformation at all. Below 1, doing nothing
            is tried too. Default: that of the scenario's plugin `augment`, else 1.
        enhancement: How much colour, contrast, brightness and sharpness change at most. Default:
            that of the scenario's plugin `augment`, else 0.5.
    """
    search = inversion(
        signed=True,
        schedule="cosine",
        box=True,
        tv=tv,
        lr=lr,
        steps=steps,
        restarts=restarts,
        seed=seed,
        memory=memory,
    )
    moving = replace(search, translation=translation)
    return PolicyInversion(moving, policy, transforms, pilot, probability, enhancement)
