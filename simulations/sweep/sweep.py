"""A sweep: a grid of defences, values, attacks, batch sizes and seeds, as Ray tasks or in turn."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedpriv.errors import BadScenario
from fedpriv.lock import alone
from fedpriv.metrics.gates import Gate, gates_of
from fedpriv.progress import Progress, Told, go_on
from fedpriv.report.page import write_report
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import spelled
from fedpriv.simulations.checks import check_exposed
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.federation.gpus import gpus_per_client, take_given
from fedpriv.simulations.federation.ray_life import check_alive
from fedpriv.simulations.judging.conditions import why_not
from fedpriv.simulations.judging.gate import check_gates
from fedpriv.simulations.stopping import UntilFile
from fedpriv.simulations.sweep.cells import (
    Cell,
    Setting,
    cells_of,
    exposed_scenario,
    settings_of,
    start_of,
    sweep_of,
    training_key,
)
from fedpriv.simulations.sweep.tables import write_tables
from fedpriv.simulations.sweep.training import CUT_SHORT, Result, attacked, train
from fedpriv.sweepfolder import SweepFolder
from fedpriv.tables import Row, rows_in

log = logging.getLogger(__name__)
Tell = Callable[[int, int, str], None]  # cells done, cells in all, the last one
LOOK, GRACE = 0.5, 20.0  # seconds between two looks, and those that work under way has to end
THERE = "there already"  # what is told at the start, of cells that are not done again
NOT_DONE = "not done yet"  # the error of a cell that has no result


@dataclass(frozen=True)
class Plan:
    """What a sweep does: its cells, and which training serves which setting.

    Settings that are equal share one training.
    """

    scenario: Scenario
    cells: list[Cell]
    trainings: list[Setting]
    source: dict[str, str]  # setting -> the training that serves it
    metrics: tuple[str, ...] = ()  # of gates, besides those of the catalogue

    @property
    def groups(self) -> list[list[Cell]]:
        """Cells that attack the same updates."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            found.setdefault(cell.group, []).append(cell)
        return list(found.values())


def plan_of(scenario: Scenario) -> Plan:
    settings = settings_of(scenario)
    named: dict[str, Setting] = {}
    for setting in settings:
        named.setdefault(training_key(setting), setting)
    source = {setting.name: named[training_key(setting)].name for setting in settings}
    return Plan(scenario, cells_of(scenario), list(named.values()), source)


def checked(scenario: Scenario, gates: Sequence[Gate] = ()) -> Plan:
    """The plan, when everything that can be known before training is right."""
    named = (*scenario.gate, *(gate.metric for gate in gates))
    plan = replace(plan_of(scenario), metrics=tuple(dict.fromkeys(named)))
    idle: dict[str, str | None] = {}  # why an attack has nothing to do; None where it has
    for cells in plan.groups:
        first = cells[0]
        exposed = exposed_scenario(first.setting, sweep_of(scenario), first.batch)
        check_exposed(first.setting.scenario, exposed, [cell.attack for cell in cells])
        for attack in (cell.attack for cell in cells if not cell.attack.options):
            why = why_not(attack.name, exposed, strict=True)
            idle[attack.name] = why and idle.get(attack.name, why)
    for name, why in idle.items():
        if why and name in sweep_of(scenario).attacks:
            raise BadScenario(f"[sweep] attack '{name}' can find nothing here: {why}.")
    check_gates(gates, scenario, [cell.attack.name for cell in plan.cells])
    return plan


def guarded(
    folder: SweepFolder,
    names: Sequence[str],
    work: Callable[..., Any],
    *given: Any,
    **named: Any,
) -> None:
    """The results of some cells, written down; a failure is one too, and stays within them.

    Once the sweep is to stop, no work is begun, and no result that is there is written over.
    """
    if folder.stop_file.exists():
        return
    try:
        found = work(*given, **named)
        results = found if isinstance(found, list) else [found]
    except Exception as error:
        log.warning("%s failed: %s", names[0], error)
        results = [{"error": f"{type(error).__name__}: {error}"}] * len(names)
    for name, result in zip(names, results, strict=True):
        if result.get("error") != CUT_SHORT or not complete(folder.cell(name)):
            folder.write_cell(name, result)


@alone()
def sweep(
    scenario: Scenario,
    folder: SweepFolder,
    *,
    resume: bool = False,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    workers: int | None = None,
    gates: Sequence[Gate] = (),
    tell: Tell = lambda done, total, name: None,
    progress: Progress = go_on,
) -> dict[str, Any]:
    """Train every setting once, attack every cell, and write its tables, its scores and its page.

    `partial` is true when `progress` said stop: what had ended by then is in the tables.
    """
    plan, told = checked(scenario, gates), Told(progress)
    folder.begin(scenario, resume)
    folder.write_gates(map(str, gates or gates_of(scenario.gate)))
    if workers == 1 and ray_address is None:
        one_by_one(plan, folder, tell, told)
    else:
        carry_out(plan, folder, ray_address, workers, tell, told, insecure_ray)
    return conclusion(plan, folder) | {"partial": told.stopped}


def conclusion(plan: Plan, folder: SweepFolder) -> dict[str, Any]:
    """The tables, scores and page of the cells that ended."""
    rows = rows_of(folder, plan.cells, plan.source)
    table = write_tables(folder, rows)
    scores = scores_of(folder, plan.groups)
    if scores:
        folder.write_scores(scores)
    return {
        "folder": str(folder.path),
        "rows": rows,
        "cap": table,
        "scores": scores,
        "report": str(write_report([folder.path])),
    }


def one_by_one(plan: Plan, folder: SweepFolder, tell: Tell, told: Told) -> None:
    """All trainings and attacks that the folder lacks, in this process."""
    options = sweep_of(plan.scenario)
    total, done = len(plan.trainings) + len(plan.cells), there(plan, folder)
    tell(done, total, THERE)

    def do(names: Sequence[str], label: str, work: Callable[..., Any], *given: Any) -> None:
        nonlocal done
        if all(complete(folder.cell(one)) for one in names):
            return
        before = sum(complete(folder.cell(one)) for one in names)
        if told(done / total, math.nan):
            guarded(folder, names, work, *given, progress=told.within(done / total, done / total))
        if all(complete(folder.cell(one)) for one in names) or not told.stopped:
            done += len(names) - before
            tell(done, total, label)

    for setting in plan.trainings:
        start = start_of(setting.scenario, options)
        do(
            [setting.name],
            setting.name,
            train,
            folder.training(setting.name),
            setting.scenario,
            start,
        )
    for cells in plan.groups:
        first = cells[0]
        do(
            [cell.name for cell in cells],
            label_of(cells),
            attacked,
            folder.victims(first.group),
            exposed_scenario(first.setting, options, first.batch),
            folder.training(plan.source[first.setting.name]),
            start_of(first.setting.scenario, options),
            cells,
            plan.metrics,
        )
    write_tables(folder, rows_of(folder, plan.cells, plan.source))


def carry_out(
    plan: Plan,
    folder: SweepFolder,
    ray_address: str | None,
    workers: int | None,
    tell: Tell,
    told: Told,
    insecure_ray: bool = False,
) -> None:
    """All trainings and attacks that the folder lacks, on Ray.

    Once `told` says stop, the work under way is asked to end and has GRACE seconds for it.
    """
    going_on = UntilFile(folder.stop_file)
    options = sweep_of(plan.scenario)
    total, done = len(plan.trainings) + len(plan.cells), there(plan, folder)
    tell(done, total, THERE)

    def finished(name: str, count: int = 1) -> None:
        nonlocal done
        done += count
        tell(done, total, name)

    with cluster(ray_address, workers, insecure_ray):
        import ray

        share = gpus_per_client(plan.scenario)
        task = ray.remote(num_cpus=1, num_gpus=share, max_retries=1)(_after)
        running: dict[Any, tuple[str, int]] = {}
        trained: dict[str, Any] = {}
        for setting in plan.trainings:
            if complete(folder.cell(setting.name)):
                continue
            place = folder.training(setting.name)
            start = start_of(setting.scenario, options)
            reference = task.remote(
                None, folder, [setting.name], train, place, setting.scenario, start, going_on
            )
            running[reference] = (setting.name, 1)
            trained[setting.name] = reference
        for cells in plan.groups:
            first = cells[0]
            lacking = [cell for cell in cells if not complete(folder.cell(cell.name))]
            if not lacking:
                continue
            source = plan.source[first.setting.name]
            reference = task.remote(
                trained.get(source) if options.at > 0 else None,
                folder,
                [cell.name for cell in cells],
                attacked,
                folder.victims(first.group),
                exposed_scenario(first.setting, options, first.batch),
                folder.training(source),
                start_of(first.setting.scenario, options),
                cells,
                plan.metrics,
                going_on,
            )
            running[reference] = (label_of(cells), len(lacking))
        ends = math.inf
        while running and time.monotonic() < ends:
            ready, _ = ray.wait(list(running), num_returns=1, timeout=LOOK)
            check_alive()
            if not told(done / total, math.nan) and ends == math.inf:
                folder.stop_file.touch()
                ends = time.monotonic() + GRACE
            for reference in ready:
                name, count = running.pop(reference)
                try:
                    ray.get(reference)
                except ray.exceptions.RayError as error:
                    log.warning("%s failed: %s", name, error)
                if ends == math.inf:
                    finished(name, count)
                write_tables(folder, rows_of(folder, plan.cells, plan.source))
        for reference in running:
            ray.cancel(reference, force=True)
    folder.stop_file.unlink(missing_ok=True)


def _after(waits: Any, folder: SweepFolder, names: Sequence[str], work: Any, *given: Any) -> None:
    """As `guarded` on the device that Ray gave, once what it waits for is there."""
    take_given()
    guarded(folder, names, work, *given)


def there(plan: Plan, folder: SweepFolder) -> int:
    """How many trainings and cells a folder has already."""
    names = [one.name for one in plan.trainings] + [one.name for one in plan.cells]
    return sum(complete(folder.cell(name)) for name in names)


def label_of(cells: Sequence[Cell]) -> str:
    """The cells that attack one round, for people: its setting and the attacks."""
    return f"{cells[0].group}: {', '.join(cell.attack.name for cell in cells)}"


def complete(result: Result) -> bool:
    """Whether a cell has a result; one that failed is tried again."""
    return bool(result) and "error" not in result


def rows_of(folder: SweepFolder, cells: Iterable[Cell], source: Mapping[str, str]) -> list[Row]:
    """A row for every cell, with its training's figures; what failed or is missing says why."""
    rows = []
    for cell in cells:
        result, training = folder.cell(cell.name), folder.cell(source[cell.setting.name])
        known = {key: value for key, value in training.items() if key != "seconds"}
        about = {**cell.setting.about(), "batch": cell.batch, "attack": cell.attack.name}
        about["plugins"] = " + ".join(map(spelled, cell.setting.scenario.plugins)) or "none"
        missing = {} if result and training else {"error": NOT_DONE}
        rows.append({**about, "knows": cell.knows, **known, **result, **missing})
    return rows


def scores_of(folder: SweepFolder, groups: Sequence[Sequence[Cell]]) -> list[Row]:
    """The scores of all victims, with their setting and where their pictures are."""
    found: list[Row] = []
    for cells in groups:
        first, place = cells[0], folder.victims(cells[0].group)
        about = {
            **first.setting.about(),
            "batch": first.batch,
            "folder": str(place.path.relative_to(folder.path)),
        }
        found += [{**row, **about, "run": folder.path.name} for row in rows_in(place.scores())]
    return found
