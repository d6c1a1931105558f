"""A race: which of several attacks is strongest here.

It is measured on planted clients, whose samples the attacker knows.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, victims_of
from fedpriv.attacks.inversion.control import planted
from fedpriv.attacks.inversion.exact import Exact, energy
from fedpriv.attacks.inversion.lockstep import groups, side_by_side
from fedpriv.attacks.inversion.polishing import Polished
from fedpriv.errors import BadOption, FedprivError
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.metrics.matching import assignment
from fedpriv.progress import Progress, Told, go_on

log = logging.getLogger(__name__)
Runner = Callable[..., Any]  # an attack: (evidence, progress) -> a Reconstruction

_KEPT = 3  # one in so many goes on to the second round
_PROBE = 12  # steps of the polish that show whether it pays
_LEAST = 24  # steps: below that the ranking is mostly chance
_MOST = 60


@dataclass(frozen=True)
class Place:
    """One attack of a race: its mean PSNR on the control in its last round, of so many steps."""

    name: str
    psnr: float
    steps: int


@dataclass(frozen=True, eq=False)
class Ranking:
    """The places, best first, and the control that they were measured on.

    `left_out` are the candidates for which the budget had no room: they come last in the mapping
    that was given, so put those that are usually good first.
    """

    places: tuple[Place, ...]
    left_out: tuple[str, ...]
    control: Victims
    truth: Tensor
    claim: Reconstruction | None  # what the winner found on the control
    evaluations: int
    seconds: float

    @property
    def winner(self) -> str:
        return self.places[0].name

    def told(self) -> list[list[Any]]:
        """The ranking as plain numbers and texts."""
        return [[place.name, round(place.psnr, 2), place.steps] for place in self.places]


def quality(claim: Reconstruction, truth: Tensor) -> Tensor:
    """The PSNR of each victim (V,), guesses and samples (V, B, …) paired at the least distance."""
    wanted, found = claim.as_pixels(truth[: len(claim.x)]), []
    for guess, own in zip(claim.pixels, wanted, strict=True):
        of, to = assignment(guess, own)
        error = (guess[of] - own[to]).square().flatten(1).mean(1)
        found.append((-10 * error.clamp_min(1e-10).log10()).mean())
    return torch.stack(found)


def shortened(attack: Runner, steps: int) -> tuple[Runner, int]:
    """The attack with at most so many steps and no last polish; one without steps unchanged."""
    if isinstance(attack, Polished | Exact):
        attack = attack.inversion
    if isinstance(attack, GradientInversion):
        steps = min(steps, attack.steps)
        return replace(attack, steps=steps, restarts=1, consensus=False), steps
    return attack, 0


def race(
    victims: Victims,
    candidates: Mapping[str, Runner],
    *,
    evaluations: int = 0,
    controls: int = 4,
    seed: int = 0,
    public: Tensor | None = None,
    most: int = _MOST,
    progress: Progress = go_on,
) -> Ranking:
    """Rank attacks by successive halving on planted clients that follow the victims' protocol.

    All candidates run for at most `most` steps, and the best third of them for twice as many: a
    slow search that ends well needs some hundred to show it. `evaluations` bounds the work: one is
    one gradient of one planted client (0: no bound). `public` are samples of the same kind that the
    attacker has, as the model takes them; without them it makes up pictures. The losses of
    different priors cannot be compared, so that the loss on the victims would not do.
    """
    if not candidates:
        raise BadOption("a race needs at least one candidate.")
    started, told = time.perf_counter(), Told(progress)
    names = list(candidates)
    steps, room = most, len(names)
    if evaluations:
        while room > 1 and controls * _work(room, _LEAST) > evaluations:
            room -= 1
        while steps > 1 and controls * _work(room, steps) > evaluations:
            steps -= 1
    control, truth, _ = planted(victims, controls, seed, public)
    running, spent = names[:room], 0
    places: dict[str, Place] = {}
    claims: dict[str, Reconstruction] = {}
    rounds = [steps] if room == 1 else [steps, 2 * steps]
    for number, most in enumerate(rounds):
        runners = {name: shortened(candidates[name], most) for name in running}
        for at, group in enumerate(parts := _groups(runners, control)):
            begin, end = (number + at / len(parts)) / 2, (number + (at + 1) / len(parts)) / 2
            found = _found(
                {name: runners[name][0] for name in group}, control, told.within(begin, end)
            )
            for name, claim in found.items():
                mean = -math.inf if claim is None else float(quality(claim, truth).mean())
                places[name] = Place(name, mean, runners[name][1])
                if claim is not None:
                    spent += claim.extra.get("evaluations", 0)
                    claims[name] = claim
            if told.stopped:
                break
        if told.stopped:
            break
        running = _by_psnr(places, running)[: _finalists(room)]
    finalists = [] if told.stopped else running  # only they have run for as many steps
    rest = [name for name in places if name not in finalists]
    order = _by_psnr(places, finalists) + _by_psnr(places, rest)
    return Ranking(
        places=tuple(places[name] for name in order),
        left_out=tuple(names[room:]),
        control=control,
        truth=truth,
        claim=claims.get(order[0]),
        evaluations=spent,
        seconds=time.perf_counter() - started,
    )


def _groups(runners: Mapping[str, tuple[Runner, int]], control: Victims) -> list[list[str]]:
    """Names of attacks, those together that can run side by side in the memory of the first."""
    memory = [one.memory for one, _ in runners.values() if isinstance(one, GradientInversion)]
    fit = control.that_fit(min(memory)) if memory else 1
    return groups({name: one for name, (one, _) in runners.items()}, len(control), fit)


def _found(
    attacks: Mapping[str, Any], control: Victims, progress: Progress
) -> dict[str, Reconstruction | None]:
    """What each attack of a group finds; None where it cannot take part."""
    try:
        if len(attacks) > 1:
            claims = side_by_side(list(attacks.values()), control, progress)
            return dict(zip(attacks, claims, strict=True))
        return {name: attack(control, progress) for name, attack in attacks.items()}
    except FedprivError as error:  # it needs what these victims do not have
        log.info("%s cannot take part in the race: %s", ", ".join(attacks), error)
        return dict.fromkeys(attacks)


def _finalists(room: int) -> int:
    return max(1, room // _KEPT)


def _work(room: int, steps: int) -> int:
    """Evaluations of one planted client in a race of `room` candidates, its end included."""
    return room * (steps + 1) + (_finalists(room) * (2 * steps + 1) if room > 1 else 0)


def least_evaluations(controls: int) -> int:
    """What a race of two candidates takes at the least; with fewer evaluations there is none."""
    return controls * _work(2, _LEAST)


def _by_psnr(places: Mapping[str, Place], names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: -places[name].psnr)


@dataclass(frozen=True, eq=False)
class Strongest:
    """Race the candidates on planted clients, then run the winner on the victims.

    The race costs at most `budget` times the winner's first-order steps. The last polish is kept if
    it pays on the planted clients, and for each victim if it explains the update about as well as
    there: where noise was added to an update, an exact match of it would be a match of the noise.
    """

    candidates: Mapping[str, Polished]
    budget: float = 0.35
    controls: int = 4
    seed: int = 0
    public: Tensor | None = None

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        controls = max(1, min(self.controls, len(victims) // 2))
        ranking = race(
            victims,
            self.candidates,
            evaluations=self.allowed(len(victims)),
            controls=controls,
            seed=self.seed,
            public=self.public,
            progress=told.within(0, 0.3),
        )
        winner = self.candidates[ranking.winner]
        bound = self._worth_polishing(winner, ranking)
        attack = winner if bound is not None else replace(winner, polish=0)
        found = attack(victims, told.within(0.33, 1))
        if bound is not None and "residual" in found.found:
            found = _unless_noisy(found, bound)
        return replace(
            found,
            seconds=time.perf_counter() - started,
            partial=told.stopped,
            extra={
                **found.extra,
                "won": ranking.winner,
                "ranking": ranking.told(),
                "left-out": list(ranking.left_out),
                "race-evaluations": ranking.evaluations,
            },
        )

    def allowed(self, victims: int) -> int:
        """Evaluations of planted clients that a race for so many victims may take.

        A step of the winner has a price of its own, about that of one more victim.
        """
        longest = max(candidate.inversion.steps for candidate in self.candidates.values())
        return max(1, int(self.budget * longest * (victims + 1)))

    def _worth_polishing(self, winner: Polished, ranking: Ranking) -> float | None:
        """The largest residual of polished planted clients; None if polishing does not pay."""
        rough = ranking.claim
        if not winner.polish or rough is None or len(rough.x) < len(ranking.control):
            return None
        claim = replace(winner, polish=min(_PROBE, winner.polish)).finish(rough)(ranking.control)
        gain = quality(claim, ranking.truth) - quality(rough, ranking.truth)
        residual = claim.loss / energy(winner.inversion, ranking.control)
        return float(residual.max()) if float(gain.mean()) > 0.2 else None


def _unless_noisy(found: Reconstruction, bound: float) -> Reconstruction:
    """Each victim's polished guess if its residual is not far above the planted clients'."""
    good = found.found["residual"] <= 10 * bound + 1e-6
    shape = (-1, *[1] * (found.x.ndim - 1))
    x = torch.where(good.view(shape), found.x, found.found["rough"])
    return replace(found, x=x, found={}, extra={**found.extra, "polished": good.tolist()})
