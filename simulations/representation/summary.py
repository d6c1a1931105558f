"""A scenario's variants side by side: what each learned and what leaked, as one table."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedpriv.files import write_text
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.representation.assess import (
    Row,
    assess,
    bytes_of,
    leakage_file,
    table_text,
)
from fedpriv.simulations.representation.pareto import points_in, write_pareto

SHOWN = {  # the columns of summary.csv that a terminal shows, and their heads
    "run": "run",
    "attack": "attack",
    "accuracy": "accuracy",
    "accuracy-clean": "on clean codes",
    "own-accuracy": "parties' own",
    "mcc": "MCC",
    "bytes": "bytes",
    "mse": "MSE",
    "psnr": "PSNR",
    "ssim": "SSIM",
    "categories": "categories",
    "face": "face",
    "feature": "feature",
    "attribute-accuracy": "attribute",
    "rate-r": "= r",
    "mask-overlap": "mask read",
}


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
    """One row for each variant and attack; a variant that nobody attacked has one without attack."""
    found: list[Row] = []
    for name, result in rows.items():
        if result.get("leakage"):
            found += [{"run": name} | row for row in result["leakage"]]
            continue
        last, total = result["rounds"][-1], sum(map(bytes_of, result["rounds"]))
        own = [value for key, value in last.items() if key.startswith("train-own-accuracy")]
        row = {"run": name, "accuracy": last["accuracy"], "bytes": total}
        found.append(row | ({"own-accuracy": sum(own) / len(own)} if own else {}))
    return found


def write_summary(folder: Path, rows: list[Row]) -> None:
    """summary.csv, and the picture of all attacked variants, which the report shows."""
    write_text(folder / "summary.csv", table_text(rows))
    if len(points_in([folder])) > 1:
        write_pareto([folder], folder)
