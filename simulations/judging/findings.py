"""Whether an attack can work on a recording: what `fedpriv preflight` prints and a run notes down."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedpriv.attacks.preflight import Preflight, preflight_all
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.files import write_text

FILE = "preflight.json"


def examined(observations: Sequence[Observation], truth: Path | None) -> list[Preflight]:
    """Every observation examined, with the samples behind it where an audit kept them."""
    paths = {seen.name: truth / f"{seen.name}.npz" for seen in observations} if truth else {}
    found = {name: Truth.load(path) for name, path in paths.items() if path.exists()}
    return preflight_all(observations, {name: (one.trained, one.y) for name, one in found.items()})


def plain(results: Sequence[Preflight]) -> list[dict[str, Any]]:
    """The findings ready for JSON, one entry for each cause with the updates it was met in."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for result in results:
        for finding in result.findings:
            entry = entries.setdefault(
                (finding.cause, finding.severity),
                {
                    "cause": finding.cause,
                    "severity": finding.severity,
                    "detail": finding.detail,
                    "updates": [],
                },
            )
            entry["updates"].append(result.name)
    return list(entries.values())


def write_findings(folder: Path, results: Sequence[Preflight]) -> None:
    write_text(folder / FILE, json.dumps(plain(results), indent=1) + "\n")
