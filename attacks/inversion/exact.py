"""Finish in double precision: where a match is exact, rounding is all that is left of the error."""

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedpriv.attacks.inversion.attack import GradientInversion, Seen, Stopping, victims_of
from fedpriv.attacks.inversion.initialisers import given
from fedpriv.attacks.inversion.labels import known
from fedpriv.engine.trusted import explicit_engine
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import Victims
from fedpriv.progress import Progress, Told, go_on

_EXPLAINED = 1e-5  # a part of ‖g‖² below which an update counts as explained


def in_double(victims: Victims) -> Victims:
    """The same victims, evaluated in double precision; what they sent stays what it was."""
    weights, buffers, delta = (
        {key: value.double() for key, value in state.items()}
        for state in (victims.weights, victims.buffers, victims.delta)
    )
    engine = None  # it holds the weights in single precision
    if victims.engine is not None and victims.shared:
        engine = explicit_engine(victims.model, weights, buffers, victims.facts.input_shape)
    return replace(victims, weights=weights, buffers=buffers, delta=delta, engine=engine)


def energy(inversion: GradientInversion, victims: Victims) -> Tensor:
    """‖g‖² of what is matched, (V,)."""
    target = inversion.match.target(victims)
    return torch.stack([value.square().flatten(1).sum(1) for value in target.values()]).sum(0)


def finished(
    rough: Reconstruction,
    victims: Victims,
    search: GradientInversion,
    steps: int,
    progress: Progress,
) -> Reconstruction:
    """`rough`, and up to `steps` more of `search` in double precision where it explains the update.

    In single precision the loss of a match ends at the rounding errors of the passes, some decibels
    before the rounding of the update itself. A victim that is not explained keeps its guess.
    """
    explained = rough.loss <= _EXPLAINED * energy(search, victims)
    rows = explained.nonzero().flatten()
    if not steps or not len(rows):
        return rough
    search = replace(
        search,
        init=given(rough.x[rows].double()),
        labels=known(rough.labels[rows]),
        steps=steps,
        restarts=1,
        stopping=Stopping(patience=50),
    )
    found = search(in_double(victims.rows(rows)), progress)
    x, loss = rough.x.clone(), rough.loss.clone()
    x[rows], loss[rows] = found.x.to(x.dtype), found.loss.to(loss.dtype)
    return replace(
        rough,
        x=x,
        loss=loss,
        extra={
            **rough.extra,
            "evaluations": rough.extra["evaluations"] + found.extra["evaluations"],
            "steps": rough.extra["steps"] + found.extra["steps"],
            "exact": explained.tolist(),
        },
    )


@dataclass(frozen=True)
class Exact:
    """`inversion` by L-BFGS, and then up to `finish` steps in double precision.

    Only victims whose update the first search explains get the second one.
    """

    inversion: GradientInversion
    finish: int = 300

    def __call__(self, seen: Seen, progress: Progress = go_on) -> Reconstruction:
        started, told = time.perf_counter(), Told(progress)
        victims = victims_of(seen)
        rough = self.inversion(victims, told.within(0, 0.8))
        if told.stopped or len(rough.x) < len(victims):
            return rough
        found = finished(rough, victims, self.inversion, self.finish, told.within(0.8, 1))
        return replace(found, seconds=time.perf_counter() - started, partial=told.stopped)
