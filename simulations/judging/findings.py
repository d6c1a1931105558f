"""What stands in the way of attacks, as one list: preflight's findings, attacks without a result.

A finding has `cause`, `severity`, `detail` and the `evidence` it was met in. The severities of an
attack without a result are "left out" (it has nothing to do here) and "failed".
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fedpriv.attacks.preflight import Preflight, preflight_all
from fedpriv.device import CPU, moved
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.report.reading import FAILED

Finding = dict[str, Any]
LEFT_OUT = "left out"  # the severity of an attack that has nothing to do here


def examined(
    observations: Sequence[Observation],
    truth_of: Callable[[str], Truth | None],
    device: torch.device = CPU,
) -> list[Preflight]:
    """Every update examined on `device`, with the samples behind it where a client kept them."""
    truths = {seen.name: truth_of(seen.name) for seen in observations}
    known = {
        name: (truth.trained, truth.y) for name, truth in truths.items() if truth and truth.samples
    }
    return preflight_all(*moved((observations, known), device))


def findings_of(results: Sequence[Preflight]) -> list[Finding]:
    """One finding for each cause, with the evidence it was met in."""
    entries: dict[tuple[str, str], Finding] = {}
    for result in results:
        for found in result.findings:
            entry = entries.setdefault(
                (found.cause, found.severity),
                {
                    "cause": found.cause,
                    "severity": found.severity,
                    "detail": found.detail,
                    "evidence": [],
                },
            )
            entry["evidence"].append(result.name)
    return list(entries.values())


def empty(
    observations: Sequence[Observation], truth_of: Callable[[str], Truth | None], kept: bool = False
) -> list[Finding]:
    """Updates without a sample: attacks on them have no score.

    That is known where other clients kept theirs, and where all are `kept` and none is there.
    """
    truths = {seen.name: truth_of(seen.name) for seen in observations}
    names = [name for name, truth in truths.items() if truth is None or not len(truth.indices)]
    if not names or (len(names) == len(truths) and not kept):
        return []
    if len(names) == len(truths):
        detail = "No update has a sample behind it, so that no attack has a score."
    else:
        detail = (
            f"{len(names)} of {len(truths)} updates have no sample behind them, so that an attack "
            "on them has no score: the table has fewer scores than updates were attacked."
        )
    detail += (
        " With dp every batch is drawn at random, and a small one can be empty: attack more "
        "updates (rounds, victims), or take a larger batch."
    )
    evidence = names if len(names) < len(truths) else []
    return [{"cause": "empty batch", "severity": "warning", "detail": detail, "evidence": evidence}]


def left_out(attack: str, why: str) -> Finding:
    return about_attack(attack, LEFT_OUT, f"It was not tried: {why}.")


def broke_down(attack: str, why: str) -> Finding:
    return about_attack(attack, FAILED, f"It failed: {why}")


def about_attack(attack: str, severity: str, detail: str) -> Finding:
    return {
        "attack": attack.replace(":", ".").replace("/", "."),
        "cause": f"attack '{attack}'",
        "severity": severity,
        "detail": detail,
        "evidence": [],
    }
