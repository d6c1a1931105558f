"""The search of an inversion: rows of unknowns on their way, and what was best so far."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedpriv.attacks.inversion.initialisers import box
from fedpriv.attacks.inversion.optimizers import Evaluate, Setting
from fedpriv.attacks.inversion.priors import with_slope
from fedpriv.attacks.inversion.translation import enlarged, moved, shrunk
from fedpriv.engine.aimed import Aimed
from fedpriv.engine.gradients import cosine, soft
from fedpriv.errors import BadObservation
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress

if TYPE_CHECKING:
    from fedpriv.attacks.inversion.attack import GradientInversion

LOOK = 10  # steps between looks at who is finished


def identity(x: Tensor) -> Tensor:
    return x


class Search:
    """One chunk of rows on its way. It can end at any time: the best point of each row is kept."""

    def __init__(
        self, attack: "GradientInversion", victims: Victims, restarts: Sequence[int]
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
