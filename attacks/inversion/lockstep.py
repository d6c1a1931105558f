"""Several searches on the same victims, step by step: one evaluation serves them all.

A model is evaluated faster per row when there are many rows. Searches that differ only in their
optimiser, prior or start need the same evaluation, so that their rows can go through it together.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedpriv.attacks.inversion.attack import GradientInversion, claimed
from fedpriv.attacks.inversion.labels import joint, known
from fedpriv.attacks.inversion.optimizers import Evaluate, Setting
from fedpriv.attacks.inversion.search import LOOK, Search, identity
from fedpriv.engine.aimed import Aimed
from fedpriv.engine.gradients import cosine, soft
from fedpriv.engine.memory import keep_pages
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress, Told, go_on

Answer = tuple[Tensor, list[Tensor]]


def groups(attacks: Mapping[str, Any], rows: int, fit: int) -> list[list[str]]:
    """The names of attacks that can share evaluations of at most `fit` rows; others are alone."""
    found: dict[Any, list[list[str]]] = {}
    most = max(1, fit // rows)
    for name, attack in attacks.items():
        own = found.setdefault(_shared(attack) or name, [[]])
        if len(own[-1]) == most:
            own.append([])
        own[-1].append(name)
    return [group for parts in found.values() for group in parts]


def _shared(attack: Any) -> tuple[Any, ...] | None:
    """What attacks must agree in to share evaluations; None for one that cannot share any."""
    if not isinstance(attack, GradientInversion) or attack.labels is joint:
        return None
    plain = attack.transform is identity and not attack.translation and attack.restarts == 1
    whole = not attack.stopping.tolerance and not attack.stopping.patience
    if not plain or not whole or not attack.optimizer(Setting(1)).looks_once:
        return None
    return attack.distance, attack.match, attack.labels, attack.seed, attack.steps


def side_by_side(
    attacks: Sequence[GradientInversion], victims: Victims, progress: Progress = go_on
) -> list[Reconstruction]:
    """What each of the attacks of one group finds; the seconds are those of all, in equal parts."""
    started, told = time.perf_counter(), Told(progress)
    keep_pages()
    searches = [Search(attacks[0], victims, [0] * len(victims))]
    if (labels := searches[0].fixed) is not None:
        for attack in attacks[1:]:  # the labels are read once
            one = replace(attack, labels=known(labels))
            searches.append(Search(one, victims, [0] * len(victims)))
        _run(searches, victims, told)
    else:
        searches = [Search(attack, victims, [0] * len(victims)) for attack in attacks]
        for number, search in enumerate(searches):
            search.run(told.within(number / len(attacks), (number + 1) / len(attacks)))
    seconds = (time.perf_counter() - started) / len(attacks)
    found = [claimed([search], victims, range(len(victims))) for search in searches]
    return [replace(claim, seconds=seconds, partial=told.stopped) for claim in found]


def _run(searches: Sequence[Search], victims: Victims, progress: Progress) -> None:
    steps, together = searches[0].attack.steps, _Together(searches, victims)
    for step in range(steps):
        for search in searches:
            search.reach(step)
        for search, answer in zip(searches, together.answers(), strict=True):
            search.advance(_given(answer))
        if step % LOOK == 0 and not progress(step / steps, searches[0].best.median().item()):
            return
    for search, answer in zip(searches, together.answers(), strict=True):
        search.look(_given(answer))


def _given(answer: Answer) -> Evaluate:
    return lambda free, rows: answer


class _Together:
    """The victims once for each search, and the distances there."""

    def __init__(self, searches: Sequence[Search], victims: Victims) -> None:
        self.searches, count = searches, len(searches)
        first = searches[0]
        assert first.fixed is not None
        self.victims = victims.rows(torch.arange(len(victims)).repeat(count))
        self.y = first.fixed.repeat(count, 1)
        self.target = {
            key: value.repeat(count, *[1] * (value.ndim - 1)) for key, value in first.target.items()
        }
        self.aim: Aimed | None = None
        plain = first.attack.distance is cosine and first.attack.match.plain(victims)
        if plain and self.victims.engine is not None:
            self.aim = Aimed.at(self.victims.engine, self.target)
            self.labels = soft(self.y, victims.facts.classes)

    def answers(self) -> list[Answer]:
        """Each search's losses and derivatives, at the point where it is."""
        seen = [search.seen_from(search.free[0]) for search in self.searches]
        losses, slopes = self._distances(torch.cat([whole.detach() for _, whole in seen]))
        parts = zip(
            self.searches, seen, losses.chunk(len(seen)), slopes.chunk(len(seen)), strict=True
        )
        found = []
        for search, (x, whole), loss, slope in parts:
            search.evaluations += len(x)
            found.append(search.with_prior(x, whole, loss, slope))
        return found

    def _distances(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.aim is not None:
            return self.aim(x, self.labels)
        attack, x = self.searches[0].attack, x.requires_grad_()
        losses = attack.distance(attack.match.found(self.victims, x, self.y), self.target)
        return losses.detach(), torch.autograd.grad(losses.sum(), x)[0]
