"""What of an update is compared with what a guess would have sent."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fedpriv.engine.gradients import Gradients
from fedpriv.evidence.victims import Victims
from fedpriv.state import State


@dataclass(frozen=True)
class Matching:
    """`target(victims)` was observed; `found(victims, x, y)` is what x and y give instead.

    `plain(victims)` says whether these are the gradients of one batch.
    """

    target: Callable[[Victims], State]
    found: Callable[[Victims, Tensor, Tensor], Gradients]
    plain: Callable[[Victims], bool] = lambda victims: False


by_gradient = Matching(
    target=lambda victims: victims.gradient,
    found=lambda victims, x, y: victims.factors_at(x, y),
    plain=lambda victims: True,
)


def _per_step(victims: Victims, delta: State) -> State:
    """−Δ/(lr · steps): the scale of a gradient, so that distances and priors keep their weights."""
    scale = -1 / (victims.facts.lr * victims.facts.local_steps)
    return {key: delta[key] * scale for key in victims.weights}


_replayed = Matching(
    target=lambda victims: _per_step(victims, victims.delta),
    found=lambda victims, x, y: _per_step(victims, victims.update_at(x, y)),
)


def _only_one_step(victims: Victims) -> bool:
    """Whether the mean gradient says all that the update does."""
    facts = victims.facts
    return facts.local_steps == 1 and facts.optimiser == "sgd"


by_replay = Matching(
    target=lambda v: (by_gradient if _only_one_step(v) else _replayed).target(v),
    found=lambda v, x, y: (by_gradient if _only_one_step(v) else _replayed).found(v, x, y),
    plain=_only_one_step,
)
