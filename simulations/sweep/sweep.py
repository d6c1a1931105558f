"""A grid of defences, values, attacks, batch sizes and seeds as Ray tasks, a file per finished cell."""

import json
import logging
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.catalogue import plugin_of
from fedpriv.errors import BadFolder, FedprivError
from fedpriv.files import write_text
from fedpriv.metrics.tradeoff import ppc
from fedpriv.report.page import write_report
from fedpriv.runfolder import RunFolder, environment
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.judging.attacking import of_run, reconstructed, scores_of
from fedpriv.simulations.sweep.cells import (
    Cell,
    Setting,
    cells_of,
    settings_of,
    sweep_of,
    training_key,
    victims_of,
)
from fedpriv.simulations.sweep.tables import write_tables
from fedpriv.simulations.sweep.training import Result, expose, train

log = logging.getLogger(__name__)
Tell = Callable[[int, int, str], None]  # cells done, cells in all, the last one


@dataclass(frozen=True)
class SweepFolder:
    """The folder of one sweep, by file name."""

    path: Path

    def training(self, name: str) -> RunFolder:
        return RunFolder(self.path / "training" / name)

    def victims(self, setting: Setting, batch: int) -> RunFolder:
        return RunFolder(self.path / "victims" / f"{setting.name}-b{batch}")

    def result(self, name: str) -> Path:
        return self.path / "cells" / f"{name}.json"

    @property
    def scenario_file(self) -> Path:
        return self.path / "scenario.toml"

    def start(self, scenario: Scenario, resume: bool) -> None:
        """Write down what is swept; BadFolder when the folder holds another sweep."""
        if self.scenario_file.exists():
            if not resume:
                raise BadFolder(
                    f"'{self.path}' holds a sweep already; give --resume to go on, or another --out."
                )
            if self.scenario_file.read_text("utf-8") != scenario.toml():
                raise BadFolder(
                    f"'{self.path}' was started with other settings; give another --out."
                )
            return
        write_text(self.scenario_file, scenario.toml())
        write_text(self.path / "environment.json", json.dumps(environment(), indent=2) + "\n")

    def done(self, name: str) -> Result | None:
        """A finished cell's result; None when it has none, or failed and is to be tried again."""
        try:
            found = json.loads(self.result(name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return None if "error" in found else found


def attack(folder: RunFolder, cell: Cell, victims: int) -> Result:
    """One attack on a setting's updates, in numbers."""
    torch.set_num_threads(1)
    started = time.monotonic()
    recording = of_run(folder)
    spec = Attack(name=cell.attack, victims=victims, options=cell.options)
    failures = reconstructed(recording, spec, cell.attack, folder.attacks)
    rows = scores_of(folder.attacks, folder.truth, recording, cell.attack, cell.attack)
    if not rows:
        raise FedprivError(failures[0].why if failures else "no victim has a truth to compare with")
    clean = [float(row["clean-norm"]) for row in rows]
    added = [float(row["added-norm"]) for row in rows]
    return {
        "victims": len({row["node"] for row in rows}),
        "rmse": statistics.fmean(float(row["rmse"]) for row in rows),
        "psnr": statistics.median(float(row["psnr"]) for row in rows),
        "psnr-best": max(float(row["psnr"]) for row in rows),
        "psnr-trained": statistics.median(float(row["psnr-trained"]) for row in rows),
        "ssim": statistics.fmean(float(row["ssim"]) for row in rows),
        "membership": 1 - statistics.fmean(float(row["label-hit"]) for row in rows),
        "tracing": 1 - statistics.fmean(float(row["traced-hit"]) for row in rows),
        "clean-norm": statistics.fmean(clean),
        "added-norm": statistics.fmean(added),
        "m": ppc(statistics.fmean(clean), statistics.fmean(added)),
        "seconds": round(time.monotonic() - started, 2),
    }


def guarded(path: Path, work: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a cell, written down; a failure is one too, and stays within its cell."""
    try:
        result = work(*arguments)
    except Exception as error:
        log.warning("%s failed: %s", path.stem, error)
        result = {"error": f"{type(error).__name__}: {error}"}
    write_text(path, json.dumps(result))
    return result


def exposed_and_attacked(
    folder: SweepFolder, cells: list[Cell], source: str, victims: int, at: float, text: str
) -> list[Result]:
    """All attacks on one setting and batch size, one after another in one process."""
    first = cells[0]
    place = folder.victims(first.setting, first.batch)
    scenario = Scenario.of({"scenario": text})
    try:
        expose(place, scenario, folder.training(source), at)
    except Exception as error:
        failed = {"error": f"{type(error).__name__}: {error}"}
        for cell in cells:
            write_text(folder.result(cell.name), json.dumps(failed))
        return [failed] * len(cells)
    return [
        folder.done(cell.name) or guarded(folder.result(cell.name), attack, place, cell, victims)
        for cell in cells
    ]


def check(scenario: Scenario) -> None:
    """Find what is wrong before anything is trained."""
    for setting in settings_of(scenario):
        plugin_of(setting.scenario.plugins)
    for cell in cells_of(scenario):
        ATTACKS.build(cell.attack, cell.options)


def sweep(
    scenario: Scenario,
    folder: SweepFolder,
    *,
    resume: bool = False,
    ray_address: str | None = None,
    workers: int | None = None,
    tell: Tell = lambda done, total, name: None,
) -> dict[str, Any]:
    """Train every setting once, attack every cell, and write results.csv, cap.csv and ppc.png."""
    check(scenario)
    folder.start(scenario, resume)
    settings, cells, options = settings_of(scenario), cells_of(scenario), sweep_of(scenario)
    named: dict[str, Setting] = {}  # equal federations are trained once
    for setting in settings:
        named.setdefault(training_key(setting), setting)
    source = {setting.name: named[training_key(setting)].name for setting in settings}
    total, done = len(named) + len(cells), 0

    def finished(name: str, count: int = 1) -> None:
        nonlocal done
        done += count
        tell(done, total, name)

    with cluster(ray_address, workers):
        import ray

        train_task = ray.remote(num_cpus=1, max_retries=1)(guarded)
        attack_task = ray.remote(num_cpus=1, max_retries=1)(_after)
        running: dict[Any, tuple[str, int]] = {}
        trained: dict[str, Any] = {}
        for setting in named.values():
            result = folder.done(setting.name)
            if result is None:
                reference = train_task.remote(
                    folder.result(setting.name),
                    train,
                    folder.training(setting.name),
                    setting.scenario,
                    options.at,
                )
                running[reference] = (setting.name, 1)
                trained[setting.name] = reference
            else:
                finished(setting.name)
        for group in grouped(cells):
            first = group[0]
            if all(folder.done(cell.name) for cell in group):
                finished(first.name, len(group))
                continue
            waits = trained.get(source[first.setting.name]) if options.at > 0 else None
            text = victims_of(first.setting, options, first.batch).text()
            reference = attack_task.remote(
                waits, folder, group, source[first.setting.name], options.victims, options.at, text
            )
            running[reference] = (first.name, len(group))
        while running:
            ready, _ = ray.wait(list(running), num_returns=1)
            name, count = running.pop(ready[0])
            try:
                ray.get(ready[0])
            except ray.exceptions.RayError as error:
                log.warning("%s failed: %s", name, error)
            finished(name, count)
            write_tables(folder.path, rows_of(folder, cells, source))
    rows = rows_of(folder, cells, source)
    table = write_tables(folder.path, rows)
    report = str(write_report([folder.path]))
    return {"folder": str(folder.path), "rows": rows, "cap": table, "report": report}


def _after(waits: Any, *arguments: Any) -> list[Result]:
    """As `exposed_and_attacked`, once what it waits for is there."""
    return exposed_and_attacked(*arguments)


def grouped(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that attack the same updates."""
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.setting.name, cell.batch), []).append(cell)
    return list(groups.values())


def rows_of(
    folder: SweepFolder, cells: Iterable[Cell], source: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A row for every cell that ended, with its training's figures; what failed says why."""
    rows = []
    for cell in cells:
        path, trained = folder.result(cell.name), folder.result(source[cell.setting.name])
        if not path.exists() or not trained.exists():
            continue
        training = json.loads(trained.read_text("utf-8"))
        setting = cell.setting
        rows.append(
            {
                "defence": setting.defence,
                "parameter": setting.parameter,
                "value": setting.value,
                "seed": setting.seed,
                "batch-size": cell.batch,
                "attack": cell.attack,
                "informed": cell.informed,
                **{key: value for key, value in training.items() if key != "seconds"},
                **json.loads(path.read_text("utf-8")),
            }
        )
    return rows
