"""An audit of a federation that shares updates: train it, attack it, look for defences."""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fedpriv.errors import FedprivError
from fedpriv.evidence.victims import slots_of
from fedpriv.metrics.rates import LEVEL, SHARE, victims_for
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.built import shares_of
from fedpriv.simulations.audit.battery import RACER, Method, standing
from fedpriv.simulations.audit.cells import (
    Cell,
    configured_cells,
    milestones,
    planted_messages,
    possible_cells,
)
from fedpriv.simulations.audit.controls import controlled
from fedpriv.simulations.audit.defending import defences
from fedpriv.simulations.audit.doubts import of_missing
from fedpriv.simulations.audit.fairness import HOLDS
from fedpriv.simulations.audit.malicious import guarded, promised, servers
from fedpriv.simulations.audit.planted_series import ControlTask
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.series import SeriesTask, recorded
from fedpriv.simulations.audit.stage import RACING, attacked, exposed_cell
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.audit.told import (
    BOUNDED,
    bounded,
    holding,
    merged,
    tellable,
    told_cells,
)
from fedpriv.simulations.audit.work import calibrated, planned, units_of
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.deciding import answered
from fedpriv.simulations.judging.findings import Finding, examined, findings_of
from fedpriv.simulations.judging.outcome import Word
from fedpriv.simulations.judging.recordings import of_run
from fedpriv.tables import Row

TRAINING = 0.4  # the part of the time that training may take
OWN, BETWEEN, POSSIBLE = 0.4, 0.08, 0.12  # how the units are shared, besides malicious servers
TOLD = 0.7  # of the units, where a server that is told more is asked first; few take all steps
READER = "quick"  # who reads labels off updates of many samples


def of_updates(work: Audit, resume: bool) -> None:
    """All stages of an audit of a federation that shares updates."""
    train(work, resume)
    if not work.rounds or not work.in_time():
        return
    known = [number for number in work.means.starts.rounds() if number <= work.rounds + 1]
    cells = configured_cells([number for number in known if number <= work.rounds] or [1])
    first = told_cells(cells[:1])[0] if tellable(work.scenario) else cells[0]
    try:
        budgeted(work, first)
    except FedprivError:
        if work.in_time():
            raise
        return  # stopped before anybody answered in the first cell: the verdict says so
    work.tell(forecast(work, first))
    place = work.folder.below("cells")
    part = OWN if cells[2:] else OWN + BETWEEN
    work.series = of_series(work)  # it takes less than a search, and answers most questions
    note(work, work.series)
    work.own = configured(work, cells[:2], int(part * work.units))
    note(work, work.own)
    if cells[2:] and not tellable(work.scenario):
        units = int(BETWEEN * work.units)
        work.between = attacked(work.scenario, cells[2:], place, work.means, units, enough=1)
        note(work, work.between)
    work.possible = attacked(
        work.scenario,
        possible_cells(work.scenario, (1,)),
        place,
        work.means,
        int(POSSIBLE * work.units),
        enough=1,
    )
    work.possible = controlled(work.possible, work.scenario, place, work.means)
    note(work, work.possible)
    work.malicious = servers(work)
    note(work, work.malicious)
    defences(work)
    work.guarded = guarded(work)


def of_series(work: Audit) -> Found:
    """What all rounds of the training say, and the same attacks on a planted federation.

    Where tasks run side by side the planted federation is attacked meanwhile.
    """
    metrics, place = work.means.metrics, work.folder.below("controls", "all-rounds").path
    task = SeriesTask(
        work.scenario, work.folder.path, work.means.own, metrics, work.units, work.rounds
    )
    control = ControlTask(work.scenario, place, metrics)

    def controls() -> list[Row]:
        (planted,) = work.means.carry([control], work.means.deadline)
        return [] if isinstance(planted, Exception) else planted

    work.tell("all rounds, and a control: a planted federation that was made to leak")
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(controls) if work.workers > 1 else None
        found = task(work.means.in_time)  # in this process, which has locked the folder
        if waiting is not None:
            found.controls = waiting.result()
    if waiting is None and found.rows and work.in_time():
        found.controls = controls()
    return found


def configured(work: Audit, cells: Sequence[Cell], units: int) -> Found:
    """What clients really do; what a server that is told more cannot draw is not searched again.

    Such a server may read more labels, or owners. About them the updates themselves are asked.
    """
    place = work.folder.below("cells")

    def searched(cells: Sequence[Cell], units: int, words: Sequence[Word] = HOLDS) -> Found:
        found = attacked(work.scenario, cells, place, work.means, units)
        return controlled(found, work.scenario, place, work.means, words)

    if not tellable(work.scenario):
        return searched(cells, units)
    told = searched(told_cells(cells), int(TOLD * work.units), BOUNDED)
    held = holding(told, work.gates)
    kinds = sorted({one.claim for one in held})
    if "sample" not in kinds:
        return untold(work, cells, told, searched)
    work.tell(f"what a server that is told more says of the {' and the '.join(kinds)} is enough")
    return merged(told, read(work, cells), held, work.gates)


def read(work: Audit, cells: Sequence[Cell]) -> Found:
    """The labels read off the updates themselves; the one step of a search comes with them."""
    reader = [Method(READER, {"steps": 1})]
    place = work.folder.below("cells")
    return attacked(work.scenario, cells, place, work.means, work.units, only=reader)


def untold(
    work: Audit,
    cells: Sequence[Cell],
    told: Found,
    searched: Callable[[Sequence[Cell], int], Found],
) -> Found:
    """The updates themselves searched, where a server that is told more decides nothing.

    Where the units have no room for that, only labels are read, and what is missing is said.
    """
    left = max(1, int(TOLD * work.units) - told.units)
    messages = max(1, min(victims_for(SHARE, LEVEL), work.scenario.federation.clients))
    samples = max(map(len, shares_of(work.scenario)))
    takes = len(cells) * units_of(Method(RACER), work.scenario, messages, samples)
    if takes <= left:
        work.tell("a server that is told more decides nothing: the updates themselves are searched")
        direct = searched(cells, left)
    else:
        why = f"a search of the updates themselves takes {takes} units, and {left} are left"
        more = [one.why for one in bounded(told, work.gates) if one.claim == "sample" and one.why]
        why = "; ".join([*more, why])
        work.tell(f"a server that is told more decides nothing: {why}")
        direct = read(work, cells)
        for cell in cells:
            direct.lacks(cell, RACER, why)
    direct.races, direct.trials = told.races | direct.races, told.trials | direct.trials
    direct.missing = [*told.missing, *direct.missing]
    return direct


def train(work: Audit, resume: bool) -> None:
    """The federation itself, all its rounds unless its part of the time is over."""
    rounds = work.scenario.federation.rounds
    work.tell(f"training {work.scenario.name}, {rounds} rounds")
    started, deadline = time.process_time(), work.clock.at(TRAINING)

    def going_on(record: dict[str, Any]) -> bool:
        return time.time() + float(record["seconds"]) <= deadline

    simulate(
        recorded(work.scenario, work.means.own),
        work.folder,
        PlainLines(work.console),
        resume=resume,
        starts=work.means.starts,
        keep=milestones(rounds),
        going_on=going_on,
        progress=work.told,
    )
    work.training = time.process_time() - started
    work.rounds = work.folder.last_round()["round"]
    if not work.rounds:
        work.folder.keep_rounds(0)  # an empty file: a page can be made of a run without rounds
    if work.rounds < rounds and work.told(0.0, math.nan):
        work.tell(f"training ends after round {work.rounds}: its part of the time is used up")


def budgeted(work: Audit, cell: Cell) -> None:
    """Minutes as units of work, by a calibration on the first cell; units that were given stay."""
    place = work.folder.below("cells", cell.name)
    probe = exposed_cell(work.scenario, cell, place, work.means)
    work.findings += in_the_way(place, cell)
    if work.units or not probe.recording.updates:
        return
    work.rate = calibrated(probe.recording)
    work.units = max(1, int(work.workers * work.clock.left() / work.rate.seconds))


def in_the_way(place: RunFolder, cell: Cell) -> list[Finding]:
    """What stands in the way of an attack on a cell's first victim."""
    found = findings_of(examined(of_run(place).updates[:1], lambda _: None))
    return [{**finding, "evidence": [cell.name]} for finding in found]


def forecast(work: Audit, cell: Cell) -> str:
    """What the audit can and cannot decide with its units, said before it begins."""
    place = work.folder.below("cells", cell.name)
    recording = of_run(place)
    if not recording.updates:
        return f"{work.units} units of work, and no update to attack"
    methods = standing(place.scenario(), work.means.own)
    samples = slots_of(recording.updates[0])
    planted = 2 * planted_messages(work.scenario, cell)  # in the cell, and in a control
    needed = min(victims_for(SHARE, LEVEL), len(recording.updates))
    each = int(OWN * work.units) // 2
    fits = planned(
        methods,
        work.scenario,
        samples=samples,
        needed=needed,
        most=len(recording.updates),
        units=int((1 - RACING) * each),
        planted=planted,
    )
    full = sum(units_of(method, work.scenario, needed + planted, samples) for method in methods)
    work.full = int(2 * full / (1 - RACING) / OWN)
    lost = ", ".join(method.label for method in fits.dropped) or "so many samples"
    text = f"{work.units} units of work: " + (
        f"no room for {lost}, so that only a leak can be decided"
        if fits.dropped or fits.clients < needed
        else f"room for {len(fits.methods)} attacks and the winners of a race on "
        f"{fits.clients * samples} samples"
    )
    text += f"; with all their steps the battery takes {work.full} units"
    if work.rate is not None:
        minutes = work.full * work.rate.seconds / work.workers / 60
        text += f", about {max(1, math.ceil(minutes))} minutes here"
    return text


def note(work: Audit, found: Found) -> None:
    """Write a stage's scores beside the others, and show what they say."""
    write_scores(work)
    for one in answered(work.gates, found.rows, found.held):
        value = "–" if one.worst is None else f"{one.worst:.2f}"
        work.tell(
            f"{one.claim}: {one.word}, {one.hits} of {one.victims} samples, worst {one.metric} "
            f"{value} by {one.attack or 'nobody'}"
        )
    for lost in of_missing(found.missing):
        work.tell(f"not done: {lost}")


def write_scores(work: Audit) -> None:
    """All scores so far; whose they are stands in `folder` and `configured`."""
    rows: list[Row] = []
    stages = (
        (work.own, True),
        (work.between, True),
        (work.series, True),
        (work.possible, False),
        (work.malicious, promised(work.scenario)),
    )
    for found, configured in stages:
        for row in (*found.told, *found.rows):
            where = f"cells/{row['run']}" if found is not work.series else ""
            rows.append(
                {**row, "run": work.folder.path.name, "folder": where, "configured": configured}
            )
    work.folder.write_scores(rows)
