"""Gradient inversion: search for the input whose gradient is the observed one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedpriv.attacks.inversion.initialisers import Initialiser, gaussian
from fedpriv.attacks.inversion.labels import LabelGuess, joint
from fedpriv.attacks.inversion.matching import Matching, by_gradient
from fedpriv.attacks.inversion.optimizers import MakeOptimizer
from fedpriv.attacks.inversion.priors import Prior, flat
from fedpriv.attacks.inversion.search import Search, identity
from fedpriv.device import halving
from fedpriv.engine.gradients import Distance
from fedpriv.engine.memory import keep_pages
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.metrics.matching import assignment
from fedpriv.progress import Progress, Told, go_on

Seen = Observation | Sequence[Observation] | Victims


def victims_of(seen: Seen) -> Victims:
    """What an attack is called with, as victims with updates that are not zero."""
    if isinstance(seen, Observation):
        seen = [seen]
    victims = seen if isinstance(seen, Victims) else stack(seen)
    sizes = torch.stack([victims.delta[key].flatten(1).abs().amax(1) for key in victims.weights])
    for name, size in zip(victims.names, sizes.amax(0).tolist(), strict=True):
        if size == 0:
            raise BadObservation(
                f"{name}: the update is zero everywhere, so that there is nothing to invert; leave "
                "it out."
            )
    return victims


@dataclass(frozen=True)
class Stopping:
    """When a row is finished.

    Its loss is below `tolerance` times the first one, or it fell by less than the part `least` in
    the last `patience` steps (0: never).
    """

    tolerance: float = 0.0
    patience: int = 0
    least: float = 0.01


@dataclass(frozen=True)
class GradientInversion:
    """Search for x, and the labels, whose gradient matches the observed one.

    ATS eq. 1, SPN alg. 5. `transform` is what a client is known to do to x before training (a
    searched policy), and must be differentiable; with `translation`, how far each image was then
    moved is searched for as well. `restarts` searches run side by side, and the one with the
    smallest loss is kept; when one reaches the tolerance, those of the same victim stop too. With
    `consensus` their mean is kept: what they found by chance averages out, what they agree on
    stays. With `coarse` above 1 the first half of the steps searches an image that is so many times
    smaller in each direction and is enlarged; the second half goes on from there with all pixels.
    `memory` in gigabytes bounds how many run at once on a CPU. An accelerator takes as many as its
    free memory has room for, and half as many where that was too much.
    """

    distance: Distance
    optimizer: MakeOptimizer
    labels: LabelGuess = joint
    init: Initialiser = gaussian
    prior: Prior = flat
    match: Matching = by_gradient
    transform: Callable[[Tensor], Tensor] = identity
    translation: bool = False
    steps: int = 300
    restarts: int = 1
    consensus: bool = False
    coarse: int = 1
    stopping: Stopping = field(default_factory=Stopping)
    seed: int = 0
    memory: float = 1.5

    def __post_init__(self) -> None:
        for name in ("steps", "restarts", "coarse"):
            if getattr(self, name) < 1:
                raise BadOption(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.memory <= 0:
            raise BadOption(f"memory must be above 0 gigabytes, got {self.memory}.")

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        """The best guesses; those found so far when `progress` says stop."""
        started, told = time.perf_counter(), Told(progress)
        keep_pages()
        victims = victims_of(seen)
        fit = victims.that_fit(self.memory)
        pairs = [(v, r) for v in range(len(victims)) for r in range(self.restarts)]
        size = fit // self.restarts * self.restarts or fit

        def searched(rows: range) -> Search | None:
            if told.stopped:
                return None
            chunk = pairs[rows.start : rows.stop]
            search = Search(self, victims.rows([v for v, _ in chunk]), [r for _, r in chunk])
            search.run(told.within(rows.start / len(pairs), rows.stop / len(pairs)))
            return search

        searches = [one for one in halving(len(pairs), size, searched) if one is not None]
        claim = claimed(searches, victims, [v for v, _ in pairs], self.consensus)
        return replace(claim, seconds=time.perf_counter() - started, partial=told.stopped)


def claimed(
    searches: Sequence[Search], victims: Victims, rows: Sequence[int], consensus: bool = False
) -> Reconstruction:
    """The best of what the searches found; `rows` are the victims of theirs, row by row."""
    x, y, losses = (
        torch.cat([getattr(search, what) for search in searches])
        for what in ("best_x", "best_y", "best")
    )
    rows = list(rows[: len(losses)])
    chosen = [_smallest(losses, rows, v) for v in dict.fromkeys(rows)]
    labels = y.argmax(-1) if y.is_floating_point() else y
    return Reconstruction(
        x=_agreed(x, rows, chosen) if consensus else x[chosen],
        labels=labels[chosen],
        loss=losses[chosen],
        names=tuple(victims.names[rows[row]] for row in chosen),
        mean=victims.facts.mean,
        std=victims.facts.std,
        extra={
            "evaluations": sum(search.evaluations for search in searches),
            "steps": max(search.taken for search in searches),
        },
    )


def _smallest(losses: Tensor, rows: list[int], victim: int) -> int:
    return min(
        (row for row, v in enumerate(rows) if v == victim), key=lambda row: losses[row].item()
    )


def _agreed(x: Tensor, rows: list[int], chosen: list[int]) -> Tensor:
    """The mean of each victim's restarts, their samples in the order of the chosen one's."""

    def ordered(row: int, best: int) -> Tensor:
        order, _ = assignment(x[row], x[best])
        return x[row][order]

    return torch.stack(
        [
            torch.stack([ordered(r, best) for r, v in enumerate(rows) if v == rows[best]]).mean(0)
            for best in chosen
        ]
    )
