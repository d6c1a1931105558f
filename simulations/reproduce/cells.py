"""The cells of an experiment: a seed and a variant each, with a folder and a file of rows."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedpriv.errors import BadFolder
from fedpriv.files import write_text
from fedpriv.progress import Progress, go_on
from fedpriv.scenario import Scenario, from_tables, read
from fedpriv.simulations.variants import variants_of
from fedpriv.tables import Row

if TYPE_CHECKING:
    from fedpriv.simulations.reproduce.experiment import Experiment


@dataclass(frozen=True)
class Cell:
    """One part of an experiment that is done in one go.

    `folder` is where a run or sweep of it goes. `progress` says whether to go on.
    """

    experiment: str
    variant: str
    seed: int
    scenario: Scenario
    folder: Path
    metrics: tuple[str, ...]
    profile: str = "small"
    ray_address: str | None = None
    insecure_ray: bool = False
    workers: int | None = None
    progress: Progress = go_on

    @property
    def name(self) -> str:
        return f"{self.experiment}, seed {self.seed}" + (f", {self.variant}" * bool(self.variant))

    @property
    def command(self) -> str:
        return f"fedpriv reproduce {self.experiment} --profile {self.profile}"

    @property
    def rows_file(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.json")

    def rows(self) -> list[Row] | None:
        """What is known of it; None when it is not done. BadFolder for one of other settings."""
        if not self.rows_file.exists():
            return None
        kept = json.loads(self.rows_file.read_text("utf-8"))
        if kept["scenario"] != self.scenario.text():
            raise BadFolder(
                f"'{self.rows_file}' was made with other settings than '{self.experiment}' has "
                "today; remove it, or its folder, and start again."
            )
        found: list[Row] = kept["rows"]
        return found

    def keep(self, rows: list[Row]) -> None:
        write_text(
            self.rows_file, json.dumps({"scenario": self.scenario.text(), "rows": rows}, indent=1)
        )


def cells_of(
    experiment: "Experiment", seeds: tuple[int, ...], folder: Path, profile: str
) -> Iterator[Cell]:
    """The cells of an experiment, variant by variant, so that each soon has all its seeds.

    Their runs lie in `folder`.
    """
    every = list(_cells(experiment, seeds, folder, profile))
    order = experiment.variants or tuple(dict.fromkeys(cell.variant for cell in every))
    yield from sorted(every, key=lambda cell: order.index(cell.variant) if cell.variant else 0)


def _cells(
    experiment: "Experiment", seeds: tuple[int, ...], folder: Path, profile: str
) -> Iterator[Cell]:
    chosen = read(experiment.scenario, experiment.settings, profile)
    for seed in seeds:
        scenario = seeded(chosen, seed)
        split = experiment.work == "run" and scenario.variants
        for variant, one in variants_of(scenario) if split else [("", scenario)]:
            if experiment.variants and variant and variant not in experiment.variants:
                continue
            yield Cell(
                experiment=experiment.name,
                variant=variant,
                seed=seed,
                scenario=one,
                folder=folder / experiment.name / f"seed-{seed}{f'-{variant}' * bool(variant)}",
                metrics=experiment.metrics,
                profile=profile,
            )


def seeded(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with another seed, and a sweep over this seed alone."""
    tables = {**scenario.plain(), "seed": seed}
    if scenario.sweep is not None:
        tables["sweep"] = {**tables["sweep"], "seeds": [seed]}
    return from_tables(tables)


def done(experiment: "Experiment", cell: Cell) -> list[Row]:
    """The rows of a cell, worked on now; none when it was stopped. They are kept beside it."""
    from fedpriv.simulations.reproduce.rows import rows_of_run, rows_of_sweep

    wall, cpu = time.monotonic(), time.process_time()
    if experiment.work == "run":
        rows = rows_of_run(cell)
    elif experiment.work == "sweep":
        rows = rows_of_sweep(cell)
    else:
        rows = experiment.work(cell)
    if not rows:
        return []
    # A run is work of this process; a sweep's is elsewhere, so that only its time is known.
    seconds = time.monotonic() - wall if experiment.work == "sweep" else time.process_time() - cpu
    about = {"experiment": cell.experiment, "run": cell.variant, "seed": cell.seed}
    ends = {"minutes": round(seconds / 60 / len(rows), 4), "command": cell.command}
    rows = [{**about, **row, **ends} for row in rows]
    cell.keep(rows)
    return rows
