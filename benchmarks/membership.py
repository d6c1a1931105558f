"""The figures of membership and owners of runs, one row an attack: docs/measured/membership.csv.

`python benchmarks/membership.py FOLDER…` reads the scores of run folders (of all their variants),
and puts their rows into the table; rows of the same run and attack are replaced.
"""

import csv
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from fedpriv.metrics.membership import exposure
from fedpriv.metrics.rates import exact_interval
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.judging.attacking import labels_of

OUT = Path(__file__).parents[1] / "docs" / "measured" / "membership.csv"
COLUMNS = (
    "scenario", "variant", "seed", "rounds", "clients", "accuracy", "attack", "members", "held out",
    "gap", "AUC", "AUC error", "found at 1 %", "low", "high", "found at 0.1 %", "low at 0.1 %",
    "high at 0.1 %", "advantage", "owners found", "owners low", "owners high", "seconds",
)  # fmt: skip
Row = dict[str, Any]


def runs_in(path: Path) -> list[RunFolder]:
    """The run, or its variants."""
    if (path / "scenario.toml").exists():
        return [RunFolder(path)]
    return [RunFolder(one.parent) for one in sorted(path.glob("*/scenario.toml"))]


def rows_of(run: RunFolder, variant: str) -> list[Row]:
    scenario, scores = run.scenario(), run.scores()
    last = run.rounds()[-1]
    about: Row = {
        "scenario": scenario.name,
        "variant": variant,
        "seed": scenario.seed,
        "rounds": scenario.federation.rounds,
        "clients": scenario.federation.clients,
        "accuracy": f"{last['accuracy']:.4f}",
    }
    found = []
    for label in labels_of(scenario.attacks):
        own = scores[scores["attack"] == label]
        if own.empty:
            continue
        times = own.groupby("node")["seconds"].first().sum()
        row = about | {"attack": label, "members": len(own), "seconds": f"{times:.1f}"}
        if own["claim"].iloc[0] == "member":
            row |= member_figures(own)
        elif own["claim"].iloc[0] == "owner":
            hits = int(own["traced-hit"].sum())
            low, high = exact_interval(hits, len(own))
            parts = ("owners found", hits / len(own)), ("owners low", low), ("owners high", high)
            row |= {name: f"{value:.4f}" for name, value in parts}
        else:
            continue
        found.append(row)
    return found


def member_figures(own: pd.DataFrame) -> Row:
    others = int(own["others"].iloc[0])
    seen = exposure(own["member-fpr"].tolist(), own["member-rank"].tolist(), others)
    figures = {
        "gap": float(own["gap"].iloc[0]),
        "AUC": seen.auc,
        "AUC error": seen.auc_error,
        "found at 1 %": seen.found,
        "low": seen.found_low,
        "high": seen.found_high,
        "found at 0.1 %": seen.strict,
        "low at 0.1 %": seen.strict_low,
        "high at 0.1 %": seen.strict_high,
        "advantage": seen.advantage,
    }
    return {"held out": others} | {name: f"{value:.4f}" for name, value in figures.items()}


def main(folders: list[str]) -> None:
    known: dict[tuple[str, ...], Row] = {}
    keys = ("scenario", "variant", "seed", "attack")
    rows: list[Row] = []
    if OUT.exists():
        with OUT.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    for folder in map(Path, folders):
        for run in runs_in(folder):
            variant = run.path.name if run.path != folder else ""
            rows += rows_of(run, variant)
    for row in rows:
        known[tuple(str(row[key]) for key in keys)] = row
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(known.values())
    for row in known.values():
        print(*(row.get(column, "") for column in COLUMNS), sep=" | ")


if __name__ == "__main__":
    main(sys.argv[1:])
