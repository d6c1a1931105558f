"""Noise: Gaussian or Laplace, on each step's gradient or on the update (SPN 4.1; ATS table 3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.pruning import Pruned
from fedpriv.errors import BadOption
from fedpriv.rng import Draws
from fedpriv.state import State

Draw = Callable[[Tensor, Draws], Tensor]


def gaussian(like: Tensor, draw: Draws) -> Tensor:
    """Normal noise of standard deviation 1, in double precision on a real client."""
    return draw.normal(like.shape, like.dtype).to(like.device)


def laplace(like: Tensor, draw: Draws) -> Tensor:
    """Laplace noise of scale 1, in double precision on a real client."""
    return draw.laplace(like.shape, like.dtype).to(like.device)


KINDS: dict[str, Draw] = {"gaussian": gaussian, "laplace": laplace}


@dataclass(frozen=True)
class Noise(PrivacyPlugin):
    """Add noise of a scale; 0 is no defence.

    On "gradient" it is added to the gradient of the shared parameters before every step, as in
    SPN's DP baseline with clipping off. On "update" it is added once, to what leaves the client;
    after `pruning` only to the elements that are shared. No ε is claimed: for that there is `dp`.

    Args:
        scale: Standard deviation of Gaussian noise, or the scale of Laplace noise, on each element.
        kind: The distribution of the noise.
        on: "gradient" adds noise before every step, "update" once to what leaves the client.
    """

    scale: float = 0.01
    kind: Literal["gaussian", "laplace"] = "gaussian"
    on: Literal["gradient", "update"] = "gradient"

    def __post_init__(self) -> None:
        if not 0 <= self.scale < float("inf"):
            raise BadOption(
                f"noise: scale must be at least 0 and finite, got {self.scale}; 0 adds none."
            )
        if self.kind not in KINDS or self.on not in ("gradient", "update"):
            raise BadOption(
                "noise: kind must be 'gaussian' or 'laplace' and on 'gradient' or 'update', got "
                f"kind={self.kind!r}, on={self.on!r}."
            )

    def on_setup(self, job: Job) -> Job:
        if self.on == "update" or self.scale == 0:
            return job
        draw, noise = job.draws_for_model("noise"), KINDS[self.kind]

        def add(*_: Any) -> None:
            for parameter in job.shared.parameters():
                if parameter.grad is not None:
                    parameter.grad.add_(noise(parameter.grad, draw), alpha=self.scale)

        job.optimiser.register_step_pre_hook(add)
        return job

    def on_update(self, update: State, job: Job) -> State:
        if self.on == "gradient" or self.scale == 0:
            return update
        draw, noise = job.draws_for_model("noise"), KINDS[self.kind]
        pruned = job.kept(Pruned)
        shared = {} if pruned is None else pruned.shared
        released = {}
        for name, values in update.items():
            added = (values + self.scale * noise(values, draw)).to(values.dtype)
            released[name] = added.where(shared[name], values) if name in shared else added
        return released
