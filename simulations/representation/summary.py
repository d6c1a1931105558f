"""A scenario's variants side by side: what each learned and what leaked, as one table."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpriv.files import write_text
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from simulations.representation.assess import Row, assess, bytes_of, leakage_file, table_text

SHOWN = (
    "run",
    "attack",
    "accuracy",
    "accuracy-clean",
    "mcc",
    "bytes",
    "mse",
    "psnr",
    "ssim",
    "categories",
    "face",
    "feature",
    "attribute-accuracy",
    "mask-overlap",
)


def number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def leakage_of(scenario: Scenario, folder: RunFolder, again: bool = True) -> list[Row]:
    """The attacks of a run, or what an earlier assessment of it wrote."""
    path = leakage_file(folder.path)
    if again or not path.exists():
        return assess(scenario, folder)
    with path.open(newline="") as file:
        return [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def summarised(rows: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """One row for each variant and attack; a variant that shares no codes has one without attack."""
    found: list[Row] = []
    for name, result in rows.items():
        if "leakage" in result:
            found += [{"run": name} | row for row in result["leakage"]]
            continue
        rounds = result["rounds"]
        total = sum(map(bytes_of, rounds))
        found.append({"run": name, "accuracy": rounds[-1]["accuracy"], "bytes": total})
    return found


def write_summary(folder: Path, rows: list[Row]) -> Path:
    path = folder / "summary.csv"
    write_text(path, table_text(rows))
    return path
