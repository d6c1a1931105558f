"""Whose sample is it? The client whose updates fit a sample best (Hu et al. 2021)."""

import time
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedpriv.attacks.inference.membership import everybody, signal_of
from fedpriv.attacks.inference.series import Series
from fedpriv.errors import BadObservation
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.inferences import Owners
from fedpriv.progress import Progress, go_on
from fedpriv.rng import generator

ENOUGH = 20  # candidates from which a client's usual value is known


def fits_best(signal: Tensor) -> Tensor:
    """(M,) the place of the client whose signal (R, K, M) stands out most, over all rounds.

    Some clients' models fit every sample better than others' do. So the values of a client are
    compared with what is usual for it in that round, over all candidates. A few candidates do not
    tell what is usual; they are compared over clients. Ties are drawn.
    """
    over = 2 if signal.shape[2] >= ENOUGH else 1
    centred = signal.double() - signal.double().nanmean(over, keepdim=True)
    spread = centred.square().nanmean(over, keepdim=True).sqrt().clamp_min(1e-12)
    known = signal.isfinite().sum(0).clamp_min(1)
    mean = (centred / spread).nansum(0) / known
    ties = torch.rand(mean.shape, generator=generator(0, "ties"), dtype=torch.float64)
    found: Tensor = (mean + 1e-9 * ties.to(mean.device)).argmax(0)
    return found


@dataclass(frozen=True)
class OwnerByUpdate:
    """Every candidate is said to be the client's whose updates fit it best.

    Args:
        candidates: The samples that the attacker asks about.
        signal: What is compared: loss, confidence (logit of the true class), the angle between
            gradient and update, or how much of the update the gradient explains.
    """

    candidates: Candidates
    signal: Literal["cosine", "difference", "loss", "confidence"] = "loss"

    def __call__(self, seen: Series, progress: Progress = go_on) -> Owners:
        if len(seen.nodes) < 2:
            raise BadObservation("Owners are told apart by their updates; only one was seen.")
        started = time.perf_counter()
        places = fits_best(signal_of(seen, self.candidates, self.signal))
        clients = torch.tensor([_number(node) for node in seen.nodes], device=seen.device)
        return Owners(
            guess=clients[places][None],
            names=(everybody(seen),),
            seconds=time.perf_counter() - started,
        )


def _number(node: int | str) -> int:
    if not str(node).lstrip("-").isdigit():
        raise BadObservation(f"Clients must be named by numbers to be owners; one is '{node}'.")
    return int(node)
