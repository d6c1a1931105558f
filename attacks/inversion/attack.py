"""Gradient inversion: search for the input whose gradient is the observed one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedpriv.attacks.inversion.initialisers import Initialiser, box, gaussian
from fedpriv.attacks.inversion.labels import LabelGuess, joint
from fedpriv.attacks.inversion.matching import Matching, by_gradient
from fedpriv.attacks.inversion.optimizers import Evaluate, MakeOptimizer, Setting
from fedpriv.attacks.inversion.priors import Prior, flat, with_slope
from fedpriv.attacks.inversion.translation import enlarged, moved, shrunk
from fedpriv.device import halving
from fedpriv.engine.aimed import Aimed
from fedpriv.engine.gradients import Distance, cosine, soft
from fedpriv.engine.memory import keep_pages
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.metrics.matching import assignment
from fedpriv.progress import Progress, Told, go_on

Seen = Observation | Sequence[Observation] | Victims
LOOK = 10  # steps between looks at who is finished


def identity(x: Tensor) -> Tensor:
    return x


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

        def searched(rows: range) -> "Search | None":
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
    searches: "Sequence[Search]", victims: Victims, rows: Sequence[int], consensus: bool = False
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


class Search:
    """One chunk of rows on its way. It can end at any time: the best point of each row is kept."""

    def __init__(
        self, attack: GradientInversion, victims: Victims, restarts: Sequence[int]
    ) -> None:
        self.attack, self.victims, self.names = attack, victims, victims.names
        facts = victims.facts
        y = attack.labels(victims, restarts, attack.seed)
        self.fixed = None if y.is_floating_point() else y
        x = attack.init(victims, restarts, attack.seed)
        self.best_x, self.best_y = x.clone(), y.clone()
        self.stages = [attack.steps]
        if attack.coarse > 1 and x.ndim == 5 and attack.steps > 1:
            self.stages = [attack.steps // 2, attack.steps - attack.steps // 2]
            x = shrunk(x, attack.coarse)
        self.free = [x] if self.fixed is not None else [x, y]
        if attack.translation:
            self.free.append(x.new_zeros(*x.shape[:2], 2))
        self.best = x.new_full((len(victims),), torch.inf)
        self.active = torch.arange(len(victims), device=victims.device)
        self.target = attack.match.target(victims)
        self.bounds = None
        if facts.mean or len(facts.input_shape) == 3:
            self.bounds = box(facts, victims.device)
        self.optimizer = attack.optimizer(Setting(self.stages[0], self.bounds))
        self.evaluations, self.taken = 0, 0
        self.history: list[Tensor] = []
        self.aim: Aimed | None = None
        self.labels = torch.empty(0)

    def run(self, progress: Progress) -> None:
        for step in range(self.attack.steps):
            self.reach(step)
            self.advance(self.evaluate)
            if step % LOOK == 0:
                if not progress(step / self.attack.steps, self.best.median().item()):
                    return
                self._drop_finished()
                if not len(self.active):
                    return
        self.look(self.evaluate)

    def reach(self, step: int) -> None:
        """Go over to all pixels if this is the step for it."""
        if step and step == self.stages[0]:
            self.free[0] = self._whole(self.free[0])
            self.optimizer = self.attack.optimizer(Setting(self.stages[1], self.bounds))

    def advance(self, evaluate: Evaluate) -> None:
        """One step of the optimiser."""
        before = [value.clone() for value in self.free]
        losses = self.optimizer.step(self.free, evaluate)
        self._keep(losses, before)
        self.taken += 1

    def look(self, evaluate: Evaluate) -> None:
        """Keep the point where a row is now if it is the best."""
        losses, _ = evaluate(self.free, None)
        self._keep(losses, self.free)

    def evaluate(self, free: list[Tensor], rows: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Losses and gradients at `free`, whose rows are `rows` of the active ones."""
        attack, victims, target, fixed = self.attack, self.victims, self.target, self.fixed
        if rows is not None:
            victims = victims.rows(rows)
            target = {key: value[rows] for key, value in target.items()}
            fixed = None if fixed is None else fixed[rows]
        self.evaluations += len(free[0])
        if rows is None and (aimed := self._aimed()) is not None:
            return self._fast(aimed, free[0])
        free = [value.detach().requires_grad_() for value in free]
        y = free[1] if fixed is None else fixed
        whole = self._whole(free[0])
        x = attack.transform(whole)
        if attack.translation:
            x = moved(x, free[-1])
        try:
            found = attack.match.found(victims, x, y)
            losses = attack.distance(found, target) + attack.prior(whole, victims)
            gradients = torch.autograd.grad(losses.sum(), free)
        except RuntimeError as error:
            if "derivative" not in str(error):
                raise
            raise BadObservation(
                f"{type(victims.model).__name__} cannot be differentiated twice, as an attack by "
                f"matching needs: {error} Put an equal layer in its place that torch can, or "
                "attack by another method."
            ) from error
        return losses.detach(), list(gradients)

    def _aimed(self) -> Aimed | None:
        """The fast way to the cosine distance, where nothing stands between x and the gradient."""
        attack, victims, fixed = self.attack, self.victims, self.fixed
        plain = attack.distance is cosine and attack.match.plain(victims)
        straight = attack.transform is identity and not attack.translation
        if not plain or not straight or fixed is None or victims.engine is None:
            return None
        if self.aim is None:
            self.aim = Aimed.at(victims.engine, self.target)
            self.labels = soft(fixed, victims.facts.classes)
        return self.aim

    def _fast(self, aimed: Aimed, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """As `evaluate`, without autograd but where the image is enlarged."""
        x, whole = self.seen_from(x)
        return self.with_prior(x, whole, *aimed(whole.detach(), self.labels))

    def seen_from(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x as an unknown, and all the pixels that it stands for."""
        x = x.detach().requires_grad_()
        return x, self._whole(x)

    def with_prior(
        self, x: Tensor, whole: Tensor, losses: Tensor, slope: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Distances (V,) and their derivatives by all pixels; with the prior, and by x."""
        prior, more = with_slope(self.attack.prior, whole.detach(), self.victims)
        slope = slope.add_(more)
        if whole is not x:
            (slope,) = torch.autograd.grad(whole, x, slope)
        return losses.add_(prior), [slope]

    def _whole(self, x: Tensor) -> Tensor:
        """x with all its pixels."""
        size = self.best_x.shape[-2:]
        return x if len(self.stages) == 1 or x.shape[-2:] == size else enlarged(x, size)

    def _keep(self, losses: Tensor, at: list[Tensor]) -> None:
        better = losses < self.best[self.active]
        rows = self.active[better]
        self.best[rows] = losses[better]
        self.best_x[rows] = self._whole(at[0][better])
        if self.fixed is None:
            self.best_y[rows] = at[1][better]

    def _drop_finished(self) -> None:
        stopping, stuck = self.attack.stopping, self.optimizer.stuck
        if not (stopping.tolerance or stopping.patience) and stuck is None:
            return
        self.history.append(self.best.clone())
        reached = self.best <= stopping.tolerance * self.history[0]
        won = {self.names[row] for row in reached.nonzero().flatten().tolist()}
        finished = torch.tensor([name in won for name in self.names], device=self.best.device)
        back = stopping.patience // LOOK
        if back and len(self.history) > back:
            earlier = self.history[-1 - back]
            finished |= self.best > earlier * (1 - stopping.least)
        left = ~finished[self.active] if stuck is None else ~(finished[self.active] | stuck)
        if left.sum() > 0.8 * len(left):
            return
        keep = left.nonzero().flatten()
        self.active = self.active[keep]
        self.free = [value[keep] for value in self.free]
        self.fixed = None if self.fixed is None else self.fixed[keep]
        self.target = {key: value[keep] for key, value in self.target.items()}
        self.victims, self.aim = self.victims.rows(keep), None
        self.optimizer.rows(keep)
