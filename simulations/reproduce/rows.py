"""From a run or a sweep to rows of figures: each with n, an interval and a blind guess beside."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from fedpriv.catalogue import METRICS
from fedpriv.codes.parties import labels_of
from fedpriv.columns import BLIND
from fedpriv.errors import WorkFailed
from fedpriv.metrics.intervals import bootstrap
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.pipeline import run_all
from fedpriv.simulations.reproduce.cells import Cell
from fedpriv.sweepfolder import SweepFolder
from fedpriv.tables import Row

REACHED = (10, 15, 20)  # decibels
LAST = 5  # rounds whose mean accuracy stands beside the last one's


def rows_of_run(cell: Cell) -> list[Row]:
    """One row an attack of a run, or one row without an attack; none when it was stopped."""
    place = RunFolder(cell.folder)
    found = run_all(
        cell.scenario,
        place,
        lambda: PlainLines(Console(quiet=True)),
        resume=place.scenario_file.exists(),
        ray_address=cell.ray_address,
        insecure_ray=cell.insecure_ray,
        progress=cell.progress,
    )
    if found["partial"]:
        return []
    (result,) = found["rows"].values()
    failed = [f"{one['attack']}: {one['why']}" for one in result.get("attacks-failed", [])]
    if failed:
        raise WorkFailed(f"{cell.name}: an attack broke down: {failed[0]}")
    learned = accuracies(result["rounds"], cell.scenario)
    extra = {row["attack"]: row for row in found["summary"] if "attack" in row}
    attacked = by_attack(result.get("scores", []), cell.metrics)
    for row in attacked:
        known = extra.get(row["attack"], {})
        row |= {key: known[key] for key in ("rate-r", "attribute-f1", "lda") if key in known}
    return [{**learned, **row} for row in attacked or [{}]]


def accuracies(rounds: Sequence[Mapping[str, Any]], scenario: Scenario) -> Row:
    """What was learned, its standard error, and what the majority class alone would give."""
    record = rounds[-1]
    wanted = ("accuracy", "mcc", "f1", "own", "bytes")
    found: Row = {
        key.removeprefix("train-"): value
        for key, value in record.items()
        if key.removeprefix("train-").startswith(wanted) and isinstance(value, int | float)
    }
    found["accuracy-last"] = float(np.mean([one["accuracy"] for one in rounds[-LAST:]]))
    share, count = majority(scenario)
    rate = min(max(float(record["accuracy"]), 0.0), 1.0)
    error = math.sqrt(rate * (1 - rate) / count)
    return {**found, "accuracy-se": error, "majority": share, "tests": count}


def majority(scenario: Scenario) -> tuple[float, int]:
    """How often the most frequent class comes in the test samples, and their number.

    With several tasks: the mean over them.
    """
    tasks = scenario.representation.tasks if scenario.representation else ("label",)
    shares = []
    for task in tasks:
        labels, _ = labels_of(scenario, task, "test")
        shares.append(float(labels.bincount().max()) / len(labels))
    return sum(shares) / len(shares), len(labels)


def by_attack(scores: Sequence[Row], metrics: Sequence[str]) -> list[Row]:
    """The scores of each attack in one row."""
    names = dict.fromkeys(row["attack"] for row in scores)
    return [figures([row for row in scores if row["attack"] == name], metrics) for name in names]


def figures(rows: Sequence[Row], metrics: Sequence[str]) -> Row:
    """One attack's figures over victims: n, the middle, its interval, and the blind guess.

    Decibels have their median, and how many victims reach some bounds, which is Pr[PSNR ≥ ε] of ATS
    definitions 1 and 2; everything else has its mean. The interval is a 95 % bootstrap over
    victims; how much a figure moves from training to training, only several seeds can say.
    """
    first = rows[0]
    found: Row = {key: first.get(key, "") for key in ("attack", "by", "knows")}
    found["n"] = len(rows)
    for name in metrics:
        values = [float(row[name]) for row in rows if row.get(name, "") != ""]
        if not values:
            continue
        decibels = METRICS.build(name).unit == "dB"
        middle = np.median if decibels else np.mean
        low, high = bootstrap(values, middle)
        found |= {name: float(middle(values)), f"{name}-low": low, f"{name}-high": high}
        for bound in REACHED if decibels else ():
            found[f"{name}-from-{bound}"] = float(np.mean([value >= bound for value in values]))
        blind = [float(row[name + BLIND]) for row in rows if row.get(name + BLIND, "") != ""]
        if blind:
            found[name + BLIND] = float(middle(blind))
    return found


def rows_of_sweep(cell: Cell) -> list[Row]:
    """One row for each defence, value, batch size and attack of a sweep."""
    from fedpriv.simulations.sweep.sweep import sweep

    place = SweepFolder(cell.folder)
    found = sweep(
        cell.scenario,
        place,
        resume=place.scenario_file.exists(),
        ray_address=cell.ray_address,
        insecure_ray=cell.insecure_ray,
        workers=cell.workers,
        progress=cell.progress,
    )
    if found["partial"]:
        return []
    failed = [row for row in found["rows"] if row.get("error")]
    if failed:
        first = f"{failed[0]['defence']}, {failed[0]['attack']}: {failed[0]['error']}"
        raise WorkFailed(f"{cell.name}: {len(failed)} cells failed, the first is {first}")
    share, count = majority(cell.scenario)
    keys = ("defence", "value", "batch", "attack")
    rows = []
    for row in found["rows"]:
        own = [one for one in found["scores"] if all(one.get(k) == row.get(k) for k in keys)]
        rate = float(row["accuracy"])
        measured = figures(own, cell.metrics) if own else {}
        error = math.sqrt(rate * (1 - rate) / count)
        rows.append({**row, **measured, "accuracy-se": error, "majority": share, "tests": count})
    return rows
