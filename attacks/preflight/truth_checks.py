"""With the truth at hand: recompute the update, and find the change of facts that explains it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fedpriv.attacks.preflight.finding import Finding
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.state import State

_GOOD = 0.02
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 16, 20)


def predicted(seen: Observation, x: Tensor, y: Tensor) -> tuple[Victims, State]:
    """The victim, and the delta that training on x (n, …), y gives by the recorded facts."""
    victims = stack([seen], fast=False)
    with torch.no_grad():
        return victims, victims.update_at(x[None], y[None])


def layer_errors(victims: Victims, expected: State) -> dict[str, float]:
    """‖observed − expected‖ / ‖observed‖ per parameter."""
    return {key: _relative(victims.delta[key], value) for key, value in expected.items()}


def total_error(victims: Victims, expected: State, scale: float = 1.0) -> float:
    gap = torch.stack([(victims.delta[k] - scale * v).square().sum() for k, v in expected.items()])
    size = torch.stack([victims.delta[key].square().sum() for key in expected])
    return float((gap.sum() / size.sum().clamp_min(1e-30)).sqrt())


def truth_checks(
    seen: Observation, x: Tensor, y: Tensor
) -> tuple[list[Finding], Mapping[str, float]]:
    """Why the recomputed update differs from the observed one, and by how much in each layer."""
    victims, expected = predicted(seen, x, y)
    errors = layer_errors(victims, expected)
    error = total_error(victims, expected)
    if error < _GOOD:
        return [], errors
    return list(_explained(seen, victims, expected, error, x, y)), errors


def _explained(
    seen: Observation, victims: Victims, expected: State, error: float, x: Tensor, y: Tensor
) -> Iterator[Finding]:
    assert seen.model is not None
    scale = _scale(victims, expected)
    rest = total_error(victims, expected, scale)
    if rest < _GOOD:
        cause = "loss-scale" if min(abs(scale - s) for s in (0.5, 2.0)) < 0.02 else "learning-rate"
        yield Finding(
            cause,
            "mismatch",
            f"the update is {scale:.3g} times the recomputed one, in all layers: the loss is "
            f"scaled or lr {seen.lr:g} should be {seen.lr * scale:.3g}.",
        )
        return
    if any(isinstance(m, _BatchNorm) for m in seen.model.modules()):
        other = "train" if seen.mode == "eval" else "eval"
        if (found := _retold(seen, x, y, mode=other)) < 0.2 * error:
            yield Finding(
                "batch-norm",
                "mismatch",
                f"{other} mode explains the update (error {found:.1e} instead of {error:.1e}).",
            )
            return
    tries = {k: _retold(seen, x, y, local_steps=k) for k in _STEPS if k != seen.local_steps}
    steps, found = min(tries.items(), key=lambda item: item[1])
    if found < 0.2 * error:
        yield Finding(
            "local-steps",
            "mismatch",
            f"{steps} local steps explain the update, the facts say {seen.local_steps} (error "
            f"{found:.1e} instead of "
            f"{error:.1e}).",
        )
    elif any(isinstance(m, _DropoutNd) and m.p for m in seen.model.modules()):
        yield Finding(
            "dropout",
            "fatal",
            f"the recomputed update is off by {error:.1%} and the model has dropout: it was "
            "active.",
        )
    else:
        yield Finding(
            "unexplained",
            "mismatch",
            f"the recomputed update is off by {error:.1%}; no change of facts explains it: a "
            "defence, other samples, "
            "or another loss.",
        )


def _retold(seen: Observation, x: Tensor, y: Tensor, **facts: object) -> float:
    return total_error(*predicted(replace(seen, **facts), x, y))  # type: ignore[arg-type]


def _scale(victims: Victims, expected: State) -> float:
    dot = torch.stack([(victims.delta[key] * value).sum() for key, value in expected.items()])
    size = torch.stack([value.square().sum() for value in expected.values()])
    return float(dot.sum() / size.sum().clamp_min(1e-30))


def _relative(seen: Tensor, expected: Tensor) -> float:
    return float((seen - expected).norm() / seen.norm().clamp_min(1e-30))
