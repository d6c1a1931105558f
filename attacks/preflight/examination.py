"""All checks of one observation, and of many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from fedpriv.attacks.preflight import model_checks, update_checks
from fedpriv.attacks.preflight.finding import Finding
from fedpriv.attacks.preflight.truth_checks import truth_checks
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation, check_finite
from fedpriv.evidence.victims import stack
from fedpriv.state import norm


@dataclass(frozen=True)
class Preflight:
    """What was found about one observation; `layers`: relative errors of the recomputed update."""

    name: str
    findings: tuple[Finding, ...]
    layers: Mapping[str, float] = field(default_factory=dict)

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes that make an attack hopeless or mismatched, the certain ones first."""
        serious = [f for f in self.findings if f.severity in ("fatal", "mismatch")]
        return tuple(dict.fromkeys(finding.cause for finding in serious))

    @property
    def verdict(self) -> str:
        severities = {finding.severity for finding in self.findings}
        if "fatal" in severities:
            return "hopeless as recorded"
        if "mismatch" in severities:
            return "facts and update disagree: mend the facts first"
        return "harder than usual" if "warning" in severities else "an attack can work here"


def preflight(seen: Observation, truth: tuple[Tensor, Tensor] | None = None) -> Preflight:
    """Examine one observation with its model; `truth` is (x, y) in the model's space, or None."""
    if seen.model is None:
        raise BadObservation(f"{seen.name} has no model yet: bind one with observation.on(model).")
    check_finite(seen)
    victims = stack([seen], fast=False)
    findings = [
        *model_checks.not_told(seen),
        *model_checks.dropout(seen, seen.model),
        *model_checks.batch_norm(seen, seen.model),
    ]
    layers: Mapping[str, float] = {}
    pruned = list(update_checks.sparsity(victims))
    findings += pruned
    if truth is not None:
        more, layers = truth_checks(seen, *truth)
        findings += more
    known = {finding.cause for finding in findings if finding.severity != "note"}
    if not pruned and not known & {"dropout", "batch-norm"}:
        findings += [
            finding
            for finding in update_checks.head_checks(victims)
            if truth is None or finding.cause in ("converged", "noise")
        ]
    findings += [
        *update_checks.adaptive(victims),
        *model_checks.optimiser(seen),
        *model_checks.augmentation(seen),
        *model_checks.schedule(seen),
        *model_checks.smoothness(seen.model),
    ]
    return Preflight(seen.name, tuple(findings), layers)


def preflight_all(
    observations: Sequence[Observation],
    truths: Mapping[str, tuple[Tensor, Tensor]] | None = None,
) -> list[Preflight]:
    """Examine each one, and what only several together show; truths by the observation's name."""
    truths = truths or {}
    results = [preflight(seen, truths.get(seen.name)) for seen in observations]
    clipped = tuple(update_checks.clipping([norm(seen.delta) for seen in observations]))
    return [replace(result, findings=result.findings + clipped) for result in results]
