"""Trials: how many of its steps an attack needs here, measured on planted clients.

An attack of the catalogue has as many steps as the hardest of its uses takes. In a cell where a
tenth of them finds as much, the rest is waste. So each search runs on the planted clients of the
cell, whose samples the attacker knows, with all its steps and with fewer. The fewest that lose next
to nothing are those it takes on the victims. What was lost stands in `verdict.json`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedpriv.device import CPU, moved
from fedpriv.errors import FedprivError
from fedpriv.evidence.claims import Reconstruction, claims_in
from fedpriv.evidence.observation import Observation
from fedpriv.progress import Progress, Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import Method, built, shortened, steps_of
from fedpriv.simulations.judging.recordings import of_run

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of an attack's steps, the fewest first
LOSES, LOSES_BEST = 0.3, 1.0  # dB that fewer steps may lose, on average and of the best sample


@dataclass(frozen=True)
class Trial:
    """How an attack did on planted clients, with all its steps and with those it was given.

    Decibels are of the squared error, as in PSNR: the mean over `samples`, and the best of them.
    """

    part: float = 1.0
    steps: int = 0
    samples: int = 0
    whole: tuple[float, float] | None = None
    taken: tuple[float, float] | None = None

    @property
    def work(self) -> float:
        """What the trial took, in runs with all steps."""
        return 1.0 + sum(part for part in PARTS if part <= self.part)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


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

        def decibels(part: float) -> Tensor | None:
            cut = shortened(self.method, scenario, part)
            return _decibels(cut, scenario, seen, folder, told)

        steps = steps_of(self.method, scenario)
        whole = decibels(1.0)
        if whole is None or told.stopped:
            return Trial(steps=steps)
        for part in PARTS:
            less = steps_of(shortened(self.method, scenario, part), scenario)
            if less >= steps:
                break
            found = decibels(part)
            if found is None or told.stopped:
                break
            if lossless(whole, found):
                return Trial(part, less, len(found), _said(whole), _said(found))
        return Trial(1.0, steps, len(whole), _said(whole), _said(whole))


def lossless(whole: Tensor, less: Tensor) -> bool:
    """Whether fewer steps are about as good: on average, and for the best sample."""
    mean = float(whole.mean() - less.mean())
    return mean <= LOSES and float(whole.max() - less.max()) <= LOSES_BEST


def _decibels(
    method: Method, scenario: Scenario, seen: Sequence[Observation], folder: RunFolder, told: Told
) -> Tensor | None:
    """The squared error of every planted sample; None where the attack cannot act."""
    try:
        made = claims_in(moved(built(method, scenario)(seen, told), CPU))
    except FedprivError:
        return None
    found = []
    for claim in made:
        truth = folder.truth_of(claim.names[0])
        if truth is None or not isinstance(claim, Reconstruction):
            return None
        g, t = claim.pairs(truth)
        error = (claim.pixels[0][g] - claim.as_pixels(truth.x)[t]).square().flatten(1).mean(1)
        found.append(-10 * error.clamp_min(1e-10).log10())
    return torch.cat(found) if found else None


def _said(values: Tensor) -> tuple[float, float]:
    return round(float(values.mean()), 2), round(float(values.max()), 2)
