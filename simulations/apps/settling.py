"""How single steps are attacked: which setting, and with how many steps.

Both are found on planted clients, whose samples the attacker knows: samples that the app only
evaluated. First all settings race. Then the winner runs on other planted clients with all its steps
and with fewer, and takes the fewest that lose next to nothing there (`audit.trials`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fedpriv.attacks.inversion.control import planted
from fedpriv.attacks.inversion.race import Strongest, race
from fedpriv.attacks.inversion.recipes import strongest
from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.metrics.matching import assignment
from fedpriv.progress import Progress, Told
from fedpriv.simulations.audit.battery import LEAST, work_of
from fedpriv.simulations.audit.trials import Ran, Trial, decibels, evaluated, fewest

SAMPLES = 64  # planted ones that a trial is about, at the least
SEED = 1  # of the trial; the race has planted other clients


@dataclass(frozen=True)
class Settled:
    """The options of `strongest` for these victims, and the trial that gave its steps."""

    options: dict[str, Any]
    trial: Trial | None = None


def settled(steps: Sequence[Observation], public: Public | None, progress: Progress) -> Settled:
    """The setting that wins the race, with the fewest steps that lose next to nothing.

    Without samples of the app's kind there is no blind guess to beat, and no step is saved.
    """
    told, victims = Told(progress), stack(steps)
    own = None if public is None or len(public.x) < victims.slots else public.x
    whole = strongest(public=own)
    search = next(iter(whole.candidates.values()))
    won = race(
        victims,
        whole.candidates,
        evaluations=whole.allowed(len(victims)),
        controls=max(1, min(whole.controls, len(victims) // 2)),
        public=own,
        progress=told,
    ).winner
    if own is None or told.stopped:
        return Settled({"only": won})

    def options(part: float) -> dict[str, Any]:
        most = {"steps": search.inversion.steps, "polish": search.polish}
        cut = {name: min(count, max(LEAST, int(part * count))) for name, count in most.items()}
        return {"only": won, **(cut if part < 1 else {})}

    def built(part: float) -> Strongest:
        return strongest(public=own, **options(part))

    def steps_at(part: float) -> int:
        return work_of(built(part))

    control, truth, _ = planted(victims, max(2, -(-SAMPLES // victims.slots)), SEED, own)

    def run(part: float) -> Ran | None:
        attack = built(part)
        found = ran(attack, control, truth, own, told)
        return None if told.stopped else found

    trial = fewest(run, steps_at)
    return Settled(options(trial.part), trial)


def ran(
    attack: Strongest, control: Victims, truth: torch.Tensor, own: torch.Tensor, told: Told
) -> Ran:
    """The attack on planted clients, their samples paired with guesses; blind is the mean."""
    claim = attack(control, told)
    wanted = claim.as_pixels(truth[: len(claim.x)])
    mean = claim.as_pixels(own.float().mean(dim=0)[None])
    found, blind = [], []
    for guess, real in zip(claim.pixels, wanted, strict=True):
        g, t = assignment(guess, real)
        found.append(decibels(guess[g], real[t]))
        blind.append(decibels(mean.expand_as(real), real))
    part = evaluated([claim], len(control)) / max(1, work_of(attack))
    return Ran(torch.cat(found), torch.cat(blind), min(1.0, part or 1.0))
