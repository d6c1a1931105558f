"""Clipping: an update is never longer than a bound."""

import math
from dataclasses import dataclass

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption
from fedpriv.scenario.types import OrInfinite
from fedpriv.state import State, norm


def clipped(update: State, bound: float) -> State:
    """The update, scaled down to the Euclidean norm `bound` when it is longer."""
    length = norm(update)
    if length <= bound:
        return update
    return {name: values * (bound / length) for name, values in update.items()}


@dataclass(frozen=True)
class Clip(PrivacyPlugin):
    """Bound the norm of the whole update; inf is no defence.

    Args:
        norm: Largest norm of the whole update; longer updates are scaled down to it. inf never
            clips.
    """

    norm: OrInfinite = 1.0

    def __post_init__(self) -> None:
        if not self.norm > 0 or math.isnan(self.norm):
            raise BadOption(f"clip: norm must be above 0, got {self.norm}; inf never clips.")

    def on_update(self, update: State, job: Job) -> State:
        return clipped(update, self.norm)
