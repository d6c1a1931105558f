"""Finish what converges: a first-order search, then L-BFGS from where it ended."""

import time
from dataclasses import dataclass, replace

import torch

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, Stopping, victims_of
from fedpriv.attacks.inversion.initialisers import given
from fedpriv.attacks.inversion.labels import known
from fedpriv.attacks.inversion.lbfgs import lbfgs
from fedpriv.attacks.inversion.priors import flat
from fedpriv.engine.gradients import l2
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress, Told, go_on


@dataclass(frozen=True)
class Polished:
    """`inversion`, and then up to `polish` steps of L-BFGS on the squared distance without a prior.

    A first-order search with a prior finds the basin quickly and stops at what the prior prefers.
    L-BFGS alone is exact on smooth networks but slow to find the basin. Where the network is not
    smooth, the second part ends after a few steps and changes little.
    """

    inversion: GradientInversion
    polish: int = 600
    patience: int = 30

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        middle = self.inversion.steps / (self.inversion.steps + self.polish) if self.polish else 1.0
        rough = self.inversion(victims, told.within(0, middle))
        if told.stopped or not self.polish or rough.x.shape[0] < len(victims):
            return replace(rough, extra={**rough.extra, "polished": [False] * len(rough.x)})
        found = self.finish(rough)(victims, told.within(middle, 1))
        size = energy(self.inversion, victims)
        return replace(
            found,
            seconds=time.perf_counter() - started,
            found={"rough": rough.x, "residual": found.loss / size},
            extra={
                "evaluations": rough.extra["evaluations"] + found.extra["evaluations"],
                "steps": rough.extra["steps"] + found.extra["steps"],
                "polished": [True] * len(found.x),
            },
        )

    def finish(self, rough: Reconstruction) -> GradientInversion:
        """The second part, from what the first one found."""
        return replace(
            self.inversion,
            distance=l2,
            optimizer=lbfgs(1.0, history=100),
            prior=flat,
            init=given(rough.x),
            labels=known(rough.labels),
            steps=self.polish,
            restarts=1,
            consensus=False,
            coarse=1,
            stopping=Stopping(patience=self.patience),
        )


def energy(inversion: GradientInversion, victims: Victims) -> torch.Tensor:
    """‖g‖² of what is matched, (V,)."""
    target = inversion.match.target(victims)
    return torch.stack([value.square().flatten(1).sum(1) for value in target.values()]).sum(0)
