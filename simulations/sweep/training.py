"""The work of one cell: train a federation once, expose one update of every client, attack it."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console

from fedpriv.catalogue import METRICS
from fedpriv.columns import BLIND
from fedpriv.errors import FedprivError
from fedpriv.lock import ORPHANS, alone
from fedpriv.metrics.distances import distances
from fedpriv.metrics.tradeoff import ppc
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.federation.exposure import Starts, exposed
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.attacking import labels_of
from fedpriv.simulations.judging.judge import Judged, judged
from fedpriv.simulations.sweep.cells import Cell
from fedpriv.tables import Row

Result = dict[str, Any]
CUT_SHORT = "cut short: the sweep was stopped"  # the error of a cell that is to be done again


def starts_in(folder: RunFolder) -> Starts:
    return Starts(folder.path / "starts")


@alone(patience=ORPHANS)
def train(folder: RunFolder, scenario: Scenario, start: int, progress: Progress = go_on) -> Result:
    """Train one federation, or go on with it; its accuracy, time and ε.

    The start of one round is kept.
    """
    torch.set_num_threads(1)
    started, told = time.monotonic(), Told(progress)
    simulate(
        scenario,
        folder,
        PlainLines(Console(quiet=True)),
        resume=folder.rounds_file.exists(),
        starts=starts_in(folder),
        keep=[start],
        progress=told,
    )
    if told.stopped:
        return {"error": CUT_SHORT}
    records = folder.rounds()
    last = records[-max(1, min(5, len(records))) :]
    return {
        "accuracy": statistics.fmean(record["accuracy"] for record in last),
        "epsilon": records[-1].get("train-epsilon"),
        "bytes-up": sum(record["bytes-up"] for record in records),
        "training-seconds": round(sum(record["seconds"] for record in records), 2),
        "seconds": round(time.monotonic() - started, 2),
    }


@alone(patience=ORPHANS)
def attacked(
    folder: RunFolder,
    scenario: Scenario,
    source: RunFolder,
    start: int,
    cells: Sequence[Cell],
    metrics: Sequence[str] = (),
    progress: Progress = go_on,
) -> list[Result]:
    """Expose one round of a setting and batch size, and carry out every attack on it.

    There is one result for each cell.
    """
    torch.set_num_threads(1)
    told = Told(progress)
    exposed(scenario, folder, starts_in(source), start, told)
    if told.stopped:
        return [{"error": CUT_SHORT}] * len(cells)
    attacks = [cell.attack for cell in cells]
    found = judged(folder, scenario, attacks, metrics=metrics, progress=told)
    return [result_of(found, label, metrics) for label in labels_of(attacks)]


def result_of(found: Judged, label: str, metrics: Sequence[str] = ()) -> Result:
    """One attack's figures over all victims; why it has none, as `error`."""
    rows = [row for row in found.rows if row["attack"] == label]
    if found.partial and (not rows or any(row["partial"] for row in rows)):
        return {"error": CUT_SHORT}
    if not rows:
        failed = [failure.why for failure in found.failures if failure.attack == label]
        left = [one["detail"] for one in found.findings if one.get("attack") == label]
        why = (*failed, *left, "no victim has a truth to compare with")[0]
        return {"error": f"{FedprivError.__name__}: {why}"}
    seconds = {(row["round"], row["node"]): float(row["seconds"]) for row in rows}
    return {
        "victims": len({row["node"] for row in rows}),
        **figures(rows, metrics),
        **perturbation(rows),
        "seconds": round(sum(seconds.values()), 2),
    }


def perturbation(rows: Sequence[Row]) -> Result:
    """How far updates were from plain ones (SPN fig. 5); nothing where codes were shared."""
    if any("clean-norm" not in row for row in rows):
        return {}
    clean, added = (
        statistics.fmean(float(row[key]) for row in rows) for key in ("clean-norm", "added-norm")
    )
    found: Result = {"clean-norm": clean, "added-norm": added, "m": ppc(clean, added)}
    if all("m-biases" in row for row in rows):
        found["m-biases"] = statistics.fmean(float(row["m-biases"]) for row in rows)
    return found


def figures(rows: Sequence[Row], metrics: Sequence[str] = ()) -> Result:
    """Every metric over the rows: decibels by their median, others by their mean, and the worst."""
    found: Result = {}
    for name in dict.fromkeys((*METRICS, *metrics)):
        metric = METRICS.build(name)
        middle = statistics.median if metric.unit == "dB" else statistics.fmean
        for column in (name, name + BLIND):
            values = [float(row[column]) for row in rows if column in row]
            if values:
                found[column] = middle(values)
        values = [float(row[name]) for row in rows if name in row]
        if values and metric.bound is not None:
            found[f"{name}-worst"] = max(values) if metric.leaks == "high" else min(values)
    for distance in distances():
        found |= distance.among(found)
    return found
