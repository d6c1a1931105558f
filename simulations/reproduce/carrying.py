"""Carry experiments out, cell by cell, here or on Ray, and write their CSV files."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedpriv.errors import BadData, BadFolder, FedprivError
from fedpriv.progress import Told
from fedpriv.scenario import read
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.federation.gpus import take_given
from fedpriv.simulations.reproduce.cells import Cell, cells_of, done
from fedpriv.simulations.reproduce.experiment import Experiment, Paper, concluded, table_name
from fedpriv.simulations.stopping import UntilFile
from fedpriv.tables import Row, write_table

log = logging.getLogger(__name__)
Tell = Callable[[str], None]
LOOK = 1.0  # seconds between two looks at what runs on Ray


@dataclass(frozen=True)
class Place:
    """Where things go: CSV files and the page below `out`, run folders below `work`."""

    out: Path
    work: Path

    def table(self, experiment: str, profile: str) -> Path:
        return self.out / "measured" / table_name(experiment, profile)

    @property
    def page(self) -> Path:
        return self.out / "papers.md"


@dataclass(frozen=True)
class Hands:
    """Who works: this process alone, or Ray with `workers` at a time or at an address."""

    workers: int = 1
    ray_address: str | None = None
    insecure_ray: bool = False

    @property
    def many(self) -> bool:
        return self.workers > 1 or self.ray_address is not None


def missing_data(experiments: Iterable[Experiment], profile: str) -> dict[str, str]:
    """Experiments whose data are not at hand, and what is said of them."""
    found = {}
    for experiment in experiments:
        try:
            dataset_of(read(experiment.scenario, experiment.settings, profile))
        except BadData as error:
            found[experiment.name] = str(error)
    return found


def reproduce(
    papers: Sequence[Paper],
    experiments: Sequence[Experiment],
    place: Place,
    profile: str,
    *,
    resume: bool,
    hands: Hands,
    tell: Tell,
    told: Told,
) -> list[str]:
    """Every experiment with its seeds, and with its spare seeds where a judge is undecided.

    Gives the experiments that failed, in words. A CSV file is written after each seed.
    """
    failed: list[str] = []
    for experiment in experiments:
        seeds = experiment.seeds
        every = list(cells_of(experiment, (*seeds, *experiment.spare), place.work, profile))
        if not resume and any(cell.rows_file.exists() for cell in every):
            raise BadFolder(
                f"'{place.work / experiment.name}' holds results already; give --resume to go on, "
                "or remove the folder to start again."
            )
        try:
            if any(cell.rows_file.exists() for cell in every if cell.seed not in seeds):
                seeds += experiment.spare  # once begun, all of them count
            rows = carried_out(experiment, every, seeds, place, hands, tell, told)
            more = seeds == experiment.seeds and experiment.spare and not told.stopped
            if more and undecided(papers, experiment, rows):
                tell(f"{experiment.name}: undecided, so its spare seeds are run too")
                seeds += experiment.spare
                carried_out(experiment, every, seeds, place, hands, tell, told)
        except FedprivError as error:
            failed.append(f"{experiment.name}: {error}")
        if told.stopped:
            break
    return failed


def undecided(papers: Sequence[Paper], experiment: Experiment, rows: Sequence[Row]) -> bool:
    items = [item for paper in papers for item in paper.items]
    own = [item for item in items if item.experiment == experiment.name and item.judge]
    return any(concluded(item, rows).verdict == "undecided" for item in own)


def carried_out(
    experiment: Experiment,
    every: Sequence[Cell],
    seeds: Sequence[int],
    place: Place,
    hands: Hands,
    tell: Tell,
    told: Told,
) -> list[Row]:
    """The rows of these seeds, those that were there and those made now."""
    cells = [cell for cell in every if cell.seed in seeds]
    todo = [cell for cell in cells if cell.rows() is None]
    for cell in cells:
        if cell not in todo:
            tell(f"{cell.name}: there already")
    if hands.many and experiment.work == "run":
        on_ray(experiment, todo, place, hands, tell, told)
    else:
        for number, cell in enumerate(todo):
            if not told(number / len(todo), math.nan):
                break
            ready = replace(
                cell,
                progress=told,
                ray_address=hands.ray_address,
                insecure_ray=hands.insecure_ray,
                workers=hands.workers,
            )
            started = time.monotonic()
            if done(experiment, ready):  # nothing comes of a cell that was stopped
                tell(f"{cell.name}: {time.monotonic() - started:.0f} s")
                written(place, experiment, every)
    return written(place, experiment, every)


def written(place: Place, experiment: Experiment, cells: Sequence[Cell]) -> list[Row]:
    """The experiment's CSV file from the cells that are done."""
    rows = [row for cell in cells for row in cell.rows() or []]
    if rows:
        write_table(place.table(experiment.name, cells[0].profile), rows)
    return rows


def on_ray(
    experiment: Experiment,
    cells: Sequence[Cell],
    place: Place,
    hands: Hands,
    tell: Tell,
    told: Told,
) -> None:
    """The cells as Ray tasks; the folder must be the same for all machines of the cluster."""
    stop = place.work / experiment.name / "stop"
    stop.unlink(missing_ok=True)
    if not cells:
        return
    with cluster(hands.ray_address, hands.workers, hands.insecure_ray):
        import ray

        task = ray.remote(num_cpus=1, max_retries=1)(_given)
        waiting = {
            task.remote(experiment, replace(cell, progress=UntilFile(stop))): cell for cell in cells
        }
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOK)
            if not told(1 - len(waiting) / len(cells), math.nan):
                stop.parent.mkdir(parents=True, exist_ok=True)
                stop.touch()
            for reference in ready:
                cell = waiting.pop(reference)
                ray.get(reference)
                tell(cell.name)
    stop.unlink(missing_ok=True)


def _given(experiment: Experiment, cell: Cell) -> None:
    take_given()
    if not UntilFile(cell.folder.parent / "stop")(0.0, math.nan):
        return
    done(experiment, cell)
