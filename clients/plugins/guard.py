"""Guard: the client looks at the model it was sent before it trains on it.

A server that is refused learns something from it. So a refusal names what is wrong with the
weights, which the server sent itself, and no figure of the client's samples. Beside `dp`, where an
ε counts all that leaves, the guard looks at the weights alone.
"""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption, Refused
from fedpriv.state import State, norm

log = logging.getLogger(__name__)
MEMORY = "guard"
LIMITS = {  # honest training stays well below; benchmarks/guard.py measures it
    "parallel rows": 0.3,
    "silent rows": 0.45,
    "units hardly ever on": 0.5,
    "units always on": 0.9,
    "silenced samples": 0.25,
    "loss": 4.0,
    "size of weights": 12.0,
    "change of weights": 2.3,
}
OF_WEIGHTS = ("parallel rows", "silent rows", "size of weights", "change of weights")


def parallel_rows(weight: Tensor) -> float:
    """The largest fraction of rows with one direction: 1 for planted bins, 0 for random weights."""
    rows = weight.flatten(1)
    rows = rows[rows.norm(dim=1) > 0]
    if len(rows) < 3 or rows.shape[1] < 8:
        return 0.0
    rows = rows / rows.norm(dim=1, keepdim=True)
    alike = (rows @ rows.T > 0.999).sum(1).amax() - 1
    return float(alike) / (len(rows) - 1)


def silent_rows(weight: Tensor) -> float:
    """The fraction of rows that are almost zero, as in a head that lets one class through."""
    size = weight.flatten(1).norm(dim=1)
    if len(size) < 3 or not size.amax() > 0:
        return 0.0
    return float((size < 1e-3 * size.amax()).float().mean())


def seldom_on(activation: Tensor) -> float:
    """The fraction of units that fire for some samples, but for fewer than one in ten.

    `activation` is (N, units).
    """
    rate = (activation > 0).float().mean(0)
    return float(((rate > 0) & (rate < 0.1)).float().mean())


def always_on(activation: Tensor) -> float:
    """The fraction of units that fire for every sample, so that the ReLU does nothing."""
    return float(((activation > 0).all(0)).float().mean())


def silenced(sensitivity: Tensor, error: Tensor) -> float:
    """The fraction of wrongly predicted samples whose gradient is almost zero.

    `sensitivity` (N,) is the norm of the loss's gradient at the input of the head, `error` (N,) is
    ‖p − y‖. A large error should give a large gradient; if it does not, the head hides the sample.
    """
    wrong = error > 0.1
    if wrong.sum() < 4:
        return 0.0
    ratio = sensitivity[wrong] / error[wrong]
    return float((ratio < 1e-3 * ratio.amax()).float().mean())


def size_of(weight: Tensor) -> float:
    """Root mean square of a weight times √inputs: 0.6 as torch draws it, a few when trained."""
    rows = weight.flatten(1)
    return float(rows.square().mean().sqrt()) * math.sqrt(rows.shape[1])


def change(now: Mapping[str, float], before: Mapping[str, float]) -> float:
    """The largest |log(a / b)|, where a and b are norms of one weight now and when last seen."""
    pairs = [(now[key], before[key]) for key in now.keys() & before.keys()]
    return max((abs(math.log(a / b)) for a, b in pairs if a > 0 and b > 0), default=0.0)


@torch.enable_grad()
def looked_at(model: nn.Module, x: Tensor, y: Tensor) -> Iterator[tuple[str, float]]:
    """Signs on the client's own samples: which units fire, and errors against gradients."""
    caught: dict[str, Tensor] = {}
    entering: list[Tensor] = []
    linear = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    hooks = [
        layer.register_forward_hook(
            lambda _, __, out, name=name: caught.__setitem__(name, out.detach().flatten(1))
        )
        for name, layer in model.named_modules()
        if isinstance(layer, nn.ReLU)
    ]
    hooks += [
        layer.register_forward_pre_hook(lambda _, given: entering.append(given[0]))
        for layer in linear[-1:]
    ]
    was = model.training
    inputs = x.detach().clone().requires_grad_()
    try:
        outputs = model.eval()(inputs)
    finally:
        model.train(was)
        for hook in hooks:
            hook.remove()
    losses = nn.functional.cross_entropy(outputs, y, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), entering or [inputs])
    error = (outputs.detach().softmax(1) - nn.functional.one_hot(y, outputs.shape[1])).norm(dim=1)
    for name, activation in caught.items():
        yield f"units hardly ever on ({name})", seldom_on(activation)
        yield f"units always on ({name})", always_on(activation)
    yield "silenced samples", silenced(gradient.flatten(1).norm(dim=1), error)
    yield "loss", float(losses.detach().mean()) / math.log(outputs.shape[1])


def signs(model: nn.Module, state: State, x: Tensor, y: Tensor) -> dict[str, float]:
    """Every sign of a malicious model that needs no earlier round, by its name and layer."""
    return dict(looked_at(model, x, y)) | signs_of_weights(state)


def signs_of_weights(state: State) -> dict[str, float]:
    """The signs that need no samples, by name and layer."""
    found = {}
    for name, value in state.items():
        if value.dim() >= 2:
            found[f"parallel rows ({name})"] = parallel_rows(value)
            found[f"silent rows ({name})"] = silent_rows(value)
            found[f"size of weights ({name})"] = size_of(value)
    return found


def over_limit(found: Mapping[str, float]) -> dict[str, float]:
    """Each sign as a multiple of its limit."""
    return {name: value / LIMITS[name.partition(" (")[0]] for name, value in found.items()}


@dataclass(frozen=True)
class Alarms:
    """Why the model of this round looks malicious; none when it does not."""

    reasons: tuple[str, ...]


def public(alarms: Sequence[str]) -> str:
    """The signs as a refusal names them: what samples showed is not told one by one."""
    found = [name for name in alarms if name.partition(" (")[0] in OF_WEIGHTS]
    rest = ["what it does with this client's samples"] if len(found) < len(alarms) else []
    return "; ".join(found + rest)


@dataclass(frozen=True)
class Guard(PrivacyPlugin):
    """Looks at a received model for signs that its weights were planted.

    The signs: parallel and silent rows, units that hardly ever or always fire, hidden samples, a
    very large loss, and jumps of weights since the last round.

    `action`: "warn" logs the signs and trains as usual, which is no defence; "refuse" does not
    train; "clip" clips the update to the norm `clip` and adds noise of standard deviation
    `noise`·`clip`. `tolerance` multiplies every limit. Beside `dp` it looks at weights alone.

    Args:
        action: What happens with a model that looks malicious: "warn" trains as usual, "refuse"
            does not train, "clip" clips the update and adds noise.
        tolerance: Factor on every limit. Larger raises fewer alarms.
        samples: How many own samples the model is tried on.
        clip: Norm to which the action "clip" clips.
        noise: Standard deviation of the noise of the action "clip", in units of `clip`.
    """

    action: Literal["warn", "refuse", "clip"] = "refuse"
    tolerance: float = 1.0
    samples: int = 128
    clip: float = 1.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for name in ("tolerance", "samples", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                value = getattr(self, name)
                raise BadOption(f"guard: {name} must be above 0 and finite, got {value}.")
        if not 0 <= self.noise < math.inf:
            raise BadOption(f"guard: noise must be at least 0 and finite, got {self.noise}.")

    def on_setup(self, job: Job) -> Job:
        x, y = job.x[: self.samples], job.y[: self.samples]
        accounted = job.accounted
        found = signs_of_weights(job.start) if accounted else signs(job.shared, job.start, x, y)
        norms = {k: norm({k: v}) for k, v in job.start.items() if v.dim() >= 2}
        facts = job.memory.facts(MEMORY)
        if facts.get("names") == list(norms):
            before = dict(zip(facts["names"], facts["norms"], strict=True))
            found["change of weights"] = change(norms, before)
        alarms = sorted(k for k, v in over_limit(found).items() if v >= self.tolerance)
        reasons = [f"{name} {found[name]:.2f}" for name in alarms]
        last = zip(facts.get("names", []), facts.get("norms", []), strict=True)
        kept = dict(last) if alarms else norms  # do not compare the next model with a malicious one
        job.memory.note(
            MEMORY,
            {
                "names": list(kept),
                "norms": [float(value) for value in kept.values()],
                "alarms": [*facts.get("alarms", []), *(f"round {job.round}: {r}" for r in reasons)],
            },
        )
        job.keep(Alarms(tuple(reasons)))
        job.report["guard-alarms"] = len(reasons)
        if reasons:
            log.warning("round %d: the model looks malicious: %s", job.round, "; ".join(reasons))
        if reasons and self.action == "refuse":
            raise Refused(
                f"The guard refuses the model of round {job.round}, because of: {public(alarms)}."
            )
        return job

    def on_update(self, update: State, job: Job) -> State:
        alarms = job.kept(Alarms)
        if self.action != "clip" or alarms is None or not alarms.reasons:
            return update
        scale = min(1.0, self.clip / max(norm(update), 1e-12))
        draw = job.draws_for_model("guard")
        noise = self.noise * self.clip
        return {
            name: (value * scale + noise * draw.normal(value.shape)).to(value.dtype)
            for name, value in update.items()
        }
