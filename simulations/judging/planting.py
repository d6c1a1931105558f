"""The control experiment: what an attack gets of a client that the attacker planted itself.

The planted client follows the recorded facts on made-up samples, which the attacker knows. What
comes back of them bounds what this attack can get of the victims.
"""

import math
import time
from dataclasses import dataclass
from typing import Any

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import victims_of
from fedpriv.attacks.inversion.control import planted
from fedpriv.attacks.inversion.race import quality
from fedpriv.errors import BadObservation, FedprivError
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.observation import Observation
from fedpriv.progress import Progress, go_on

GOOD = 20.0  # dB: a picture that people recognise, as in the catalogue's bound
MOST_SLOTS = 64


@dataclass(frozen=True)
class Control:
    """PSNR of what an attack got of a planted client's samples; nan where it could not act."""

    attack: str
    psnr: float
    slots: int
    steps: int
    seconds: float
    why: str = ""

    @property
    def sentence(self) -> str:
        behind = f"{self.slots} samples in {self.steps} local steps"
        if self.why:
            return f"The control could not be made ({self.attack}, {behind}): {self.why}"
        able = (
            "can work here" if self.psnr >= GOOD else "does not work here, even on its own client"
        )
        return (
            f"{self.attack} gets {self.psnr:.1f} dB PSNR of a planted client with the same facts "
            f"({behind}, {self.seconds:.0f} s): it {able}."
        )

    def plain(self) -> dict[str, Any]:
        return {
            **vars(self),
            "psnr": None if math.isnan(self.psnr) else self.psnr,
            "sentence": self.sentence,
        }


def controlled(seen: Observation, attack: str, progress: Progress = go_on) -> Control:
    """One planted client of the same protocol, attacked."""
    started = time.perf_counter()
    try:
        victims = victims_of(seen)
        if victims.slots > MOST_SLOTS:
            raise BadObservation(
                f"{victims.slots} samples are behind one update; controls go up to {MOST_SLOTS}."
            )
        control, truth, _ = planted(victims, 1)
        claim = ATTACKS.build(attack, {})(control, progress)
        if not isinstance(claim, Reconstruction):
            raise BadObservation(f"'{attack}' does not claim samples; take an inversion.")
        psnr, why = float(quality(claim, truth).mean()), ""
    except FedprivError as error:
        psnr, why = math.nan, str(error)
    took = time.perf_counter() - started
    slots = min(seen.num_examples, seen.local_steps * seen.batch_size)
    return Control(attack, psnr, slots, seen.local_steps, took, why)
