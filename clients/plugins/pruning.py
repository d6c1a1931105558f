"""Pruning: only the largest elements of an update are shared (PPDL; SPN sect. 4.1, ATS table 3)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption
from fedpriv.state import State

MEMORY = "pruning"


def threshold(values: Tensor, fraction: float) -> Tensor:
    """The smallest magnitude among the largest `fraction` of the elements."""
    count = max(1, round(fraction * values.numel()))
    return values.abs().flatten().topk(count).values[-1]


def keep_largest(values: Tensor, fraction: float) -> Tensor:
    """Zero all but the `fraction` of elements that are largest in magnitude (SPN sect. 4.1)."""
    return values.where(values.abs() >= threshold(values, fraction), 0)


def keep_largest_of_all(update: State, fraction: float) -> State:
    """As `keep_largest`, with one threshold for all parameters together."""
    least = threshold(torch.cat([values.flatten() for values in update.values()]), fraction)
    return {name: values.where(values.abs() >= least, 0) for name, values in update.items()}


@dataclass(frozen=True)
class Pruned:
    """Which elements of this round's update are shared, by parameter name."""

    shared: State


@dataclass(frozen=True)
class GradientPruning(PrivacyPlugin):
    """Share the largest `fraction` of each parameter, or of the whole update; 1 is no defence.

    With `feedback` the elements that are not shared are kept and added to the next update.

    Args:
        fraction: Part of the elements that is shared, the largest in magnitude; 1 shares all.
        scope: Whether the largest are chosen in each layer or in the whole update.
        feedback: Keep what was not shared and add it to the next update.
    """

    fraction: float = 0.3
    scope: Literal["layer", "global"] = "layer"
    feedback: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise BadOption(
                f"pruning: fraction must be in (0, 1], got {self.fraction}; 1 shares all of it."
            )
        if self.scope not in ("layer", "global"):
            raise BadOption(f"pruning: scope must be 'layer' or 'global', got {self.scope!r}.")

    def on_update(self, update: State, job: Job) -> State:
        if self.fraction == 1:
            return update
        held = job.memory.recall(MEMORY) if self.feedback else None
        if held is not None:
            update = {name: values + held[name] for name, values in update.items()}
        if self.scope == "global":
            released = keep_largest_of_all(update, self.fraction)
        else:
            released = {name: keep_largest(v, self.fraction) for name, v in update.items()}
        if self.feedback:
            job.memory.remember(MEMORY, {name: update[name] - released[name] for name in update})
        job.keep(Pruned({name: values != 0 for name, values in released.items()}))
        return released
