"""Trials: what an attack does to planted clients with all its steps, and with fewer.

An attack of the catalogue has as many steps as the hardest of its uses takes. In a cell where a
tenth of them finds as much, the rest is waste. So each search runs on the planted clients of the
cell, whose samples the attacker knows, with all its steps and with fewer. The fewest that lose next
to nothing are those it takes on the victims. An attack that finds nothing loses nothing either, so
that steps are saved only where all of them clearly beat a blind guess. What was saved stands in
the verdict's sentence.

The trials are the final of a cell's race as well. `strongest` runs in every cell, and stands for a
finalist that finds no more than it does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedpriv.device import CPU, moved
from fedpriv.errors import FedprivError
from fedpriv.evidence.claims import Reconstruction, claims_in
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.rates import LEVEL
from fedpriv.progress import Progress, Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import test_samples
from fedpriv.simulations.audit.battery import Method, built, shortened, steps_of
from fedpriv.simulations.audit.fairness import at_worst
from fedpriv.simulations.judging.recordings import of_run

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of an attack's steps, the fewest first
LOSES, LOSES_BEST = 0.3, 1.0  # dB that fewer steps may lose, on average and of the best sample
GAIN = 0.1  # and the part of what all steps gain over a blind guess


@dataclass(frozen=True)
class Trial:
    """How an attack did on planted clients, with all its steps and with those it was given.

    Decibels are of the squared error, as in PSNR: of every planted sample, by the blind guess too.
    `all_steps` is how many there are at most; `steps` how many it takes. An attack may end before
    its last step: `ran` is the part of the steps it takes that it really took.
    """

    part: float = 1.0
    steps: int = 0
    all_steps: int = 0
    whole: tuple[float, ...] = ()
    taken: tuple[float, ...] = ()
    blind: tuple[float, ...] = ()
    ran: float = 1.0

    @property
    def work(self) -> float:
        """What the trial took, in runs with all steps."""
        return 1.0 + sum(part for part in PARTS if part <= self.part)

    @property
    def works(self) -> bool:
        """Whether the attack with all its steps clearly beats a blind guess."""
        return bool(self.whole) and beats(torch.tensor(self.whole), torch.tensor(self.blind))

    def plain(self) -> dict[str, Any]:
        """As `verdict.json` has it: mean and best in dB."""
        said = {name: _said(getattr(self, name)) for name in ("whole", "taken", "blind")}
        return {
            "part": self.part,
            "steps": self.steps,
            "all-steps": self.all_steps,
            "samples": len(self.whole),
            "works": self.works,
            **said,
        }


@dataclass(frozen=True, eq=False)
class Ran:
    """The decibels of every planted sample, of a blind guess, and the part of the steps taken."""

    found: Tensor
    blind: Tensor
    part: float


@dataclass(frozen=True)
class TrialTask:
    """One attack on the planted clients of a cell, with all its steps and with fewer."""

    place: Path
    method: Method
    planted: tuple[str, ...]

    def __call__(self, progress: Progress) -> Trial:
        folder = RunFolder(self.place)
        recording, scenario = of_run(folder), folder.scenario()
        seen = [one for one in recording.updates if one.name in self.planted]
        seen, told = moved(seen, recording.device), Told(progress)

        mean = test_samples(scenario)[0].float().mean(dim=0)

        def run(part: float) -> Ran | None:
            cut = shortened(self.method, scenario, part)
            found = _ran(cut, scenario, seen, folder, mean, told)
            return None if told.stopped else found

        def steps_at(part: float) -> int:
            return steps_of(shortened(self.method, scenario, part), scenario)

        return fewest(run, steps_at)


def fewest(run: Callable[[float], Ran | None], steps_at: Callable[[float], int]) -> Trial:
    """An attack with all its steps, and with the fewest that lose next to nothing.

    `run` takes a part of the steps. It gives None where the attack cannot act or the time was up.
    """
    steps = steps_at(1.0)
    whole = run(1.0)
    if whole is None:
        return Trial(steps=steps, all_steps=steps)
    values, blind = _plain(whole.found), _plain(whole.blind)
    kept = Trial(1.0, steps, steps, values, values, blind, whole.part)
    for part in PARTS if beats(whole.found, whole.blind) else ():
        less = steps_at(part)
        if less >= steps:
            break
        found = run(part)
        if found is None:
            break
        if lossless(whole.found, found.found, whole.blind):
            taken = _plain(found.found)
            return replace(kept, part=part, steps=less, taken=taken, ran=found.part)
    return kept


def beats(found: Tensor, blind: Tensor) -> bool:
    """Whether guesses are better than blind ones beyond chance: 95 %, one side, by Student."""
    return at_worst((found - blind).tolist(), LEVEL) > 0


def stands_for(runs: Trial, other: Trial) -> bool:
    """Whether an attack that runs anyway finds about all that another one does.

    It must be seen to work: two attacks that find nothing do not stand for each other.
    """
    known = bool(runs.whole) and len(runs.whole) == len(other.whole)
    values = (torch.tensor(each) for each in (other.whole, runs.whole, runs.blind))
    return known and runs.works and lossless(*values)


def lossless(whole: Tensor, less: Tensor, blind: Tensor) -> bool:
    """Whether fewer steps are about as good: on average, and for the best sample."""
    mean, gained = float(whole.mean() - less.mean()), float(whole.mean() - blind.mean())
    best = float(whole.max() - less.max())
    return mean <= min(LOSES, max(0.0, GAIN * gained)) and best <= LOSES_BEST


def _ran(
    method: Method,
    scenario: Scenario,
    seen: Sequence[Observation],
    folder: RunFolder,
    mean: Tensor,
    told: Told,
) -> Ran | None:
    """An attack on planted clients; the blind guess is the public mean.

    None where the attack cannot act.
    """
    try:
        made = claims_in(moved(built(method, scenario)(seen, told), CPU))
    except FedprivError:
        return None
    found, blind = [], []
    for claim in made:
        truth = folder.truth_of(claim.names[0])
        if truth is None or not isinstance(claim, Reconstruction):
            return None
        g, t = claim.pairs(truth)
        real = claim.as_pixels(truth.x)[t]
        found.append(decibels(claim.pixels[0][g], real))
        blind.append(decibels(claim.as_pixels(mean[None]), real))
    if not found:
        return None
    part = evaluated(made, len(seen)) / max(1, steps_of(method, scenario))
    return Ran(torch.cat(found), torch.cat(blind), min(1.0, part or 1.0))


def evaluated(made: Sequence[Any], clients: int) -> float:
    """How many gradients an attack evaluated for each client; 0 where it does not say."""
    extra = made[0].extra
    counts = (extra.get("evaluations", 0), extra.get("race-evaluations", 0))
    return float(sum(counts)) / max(1, clients)


def decibels(guess: Tensor, real: Tensor) -> Tensor:
    """PSNR of every guess."""
    return -10 * (guess - real).square().flatten(1).mean(1).clamp_min(1e-10).log10()


def _plain(values: Tensor) -> tuple[float, ...]:
    return tuple(values.tolist())


def _said(values: Sequence[float]) -> list[float] | None:
    """Mean and best."""
    return [round(sum(values) / len(values), 2), round(max(values), 2)] if values else None
