"""Finish what converges: a first-order search, then L-BFGS from where it ended."""

import time
from dataclasses import dataclass, replace

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, Stopping, victims_of
from fedpriv.attacks.inversion.exact import energy, finished
from fedpriv.attacks.inversion.initialisers import given
from fedpriv.attacks.inversion.labels import known
from fedpriv.attacks.inversion.lbfgs import lbfgs
from fedpriv.attacks.inversion.priors import flat
from fedpriv.engine.gradients import l2
from fedpriv.evidence.claims import Reconstruction
from fedpriv.progress import Progress, Told, go_on


@dataclass(frozen=True)
class Polished:
    """`inversion`, and then up to `polish` steps of L-BFGS on the squared distance without a prior.

    A first-order search with a prior finds the basin quickly and stops at what the prior prefers.
    L-BFGS alone is exact on smooth networks but slow to find the basin. Where the network is not
    smooth, the second part ends after a few steps and changes little. Where an update is explained,
    up to four times as many steps go on in double precision.
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
        search, late = self.finish(rough), (3 + middle) / 4
        found = search(victims, told.within(middle, late))
        if not told.stopped and len(found.x) == len(victims):
            found = finished(found, victims, search, 4 * self.polish, told.within(late, 1))
        size = energy(self.inversion, victims)
        return replace(
            found,
            seconds=time.perf_counter() - started,
            found={"rough": rough.x, "residual": found.loss / size},
            extra={
                **found.extra,
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
