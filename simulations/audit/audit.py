"""`fedpriv audit`: train, attack with the standard battery, look for a defence that passes, report."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd
from rich.console import Console

from fedpriv.attacks.preflight import preflight
from fedpriv.errors import BadOption, FedprivError
from fedpriv.files import write_text
from fedpriv.report.leakage import CEILING, DEFAULT_BOUNDS
from fedpriv.report.page import write_report
from fedpriv.report.reading import spelled
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import Cell, cells, methods_on, milestones
from fedpriv.simulations.audit.ladder import Tried, candidates, cheapest
from fedpriv.simulations.audit.probe import Limits, OutOfTime, Pace, Starts, Trainer, probe
from fedpriv.simulations.federation.run import deliberate_threads, simulate
from fedpriv.simulations.judging.attacking import of_run
from fedpriv.simulations.judging.gate import Gate, gates_of
from fedpriv.simulations.judging.scoring import Row
from fedpriv.strategies.catalogue import SHARING_CODES

# The shares of the time after which training, the battery and the defences end; then the page is written.
TRAINING, BATTERY, LADDER = 0.3, 0.5, 0.95
WORDS = {True: "passes", False: "falls", None: "undecided"}


@dataclass
class Clock:
    """The audit's time: how much is left of it, and of a share of it."""

    minutes: float
    started: float = field(default_factory=time.monotonic)

    def at(self, share: float) -> float:
        return self.started + 60 * self.minutes * share

    def left(self, share: float) -> float:
        return self.at(share) - time.monotonic()


@dataclass
class Audit:
    """What an audit has found so far."""

    scenario: Scenario
    folder: RunFolder
    gates: list[Gate]
    clock: Clock
    console: Console
    starts: Starts
    pace: Pace = field(default_factory=Pace)
    rows: list[Row] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    findings: list[dict[str, str]] = field(default_factory=list)
    rounds: int = 0

    def tell(self, text: str) -> None:
        line = f"{self.clock.left(1.0) / 60:5.1f} min left  {text}"
        self.console.print(line, highlight=False, soft_wrap=True)

    def crossed(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that lie beyond a gate."""
        return [
            row
            for row in rows
            if any(g.metric in row and g.crossed(float(row[g.metric])) for g in self.gates)
        ]

    def worst(self, rows: Iterable[Row]) -> Row | None:
        """The row that is worst by the first gate."""
        gate = self.gates[0]
        measured = [row for row in rows if gate.metric in row]
        side = max if gate.above else min
        return side(measured, key=lambda row: float(row[gate.metric]), default=None)


def audit(
    scenario: Scenario,
    folder: RunFolder,
    *,
    minutes: float = 10.0,
    fail_if: Iterable[str] = (),
    console: Console | None = None,
) -> dict[str, Any]:
    """Everything an audit found, also in `audit.json`; its page is `report.html` in the folder."""
    if scenario.federation.strategy in SHARING_CODES:
        raise BadOption(
            f"An audit attacks updates, and '{scenario.federation.strategy}' shares codes; "
            "`fedpriv run` attacks those."
        )
    if not minutes > 0:
        raise BadOption(f"--minutes must be above 0, got {minutes}.")
    deliberate_threads()
    gates = gates_of(scenario.gate, fail_if) or gates_of({"psnr": DEFAULT_BOUNDS["psnr"]})
    bounds = {gate.metric: gate.bound for gate in gates}
    plain = replace(
        scenario,
        attacks=(),
        keep_truth=False,
        gate=bounds,
        variants=(),
        sweep=None,
        federation=replace(scenario.federation, backend="inline"),
    )
    starts = Starts(folder.path / "starts")
    work = Audit(plain, folder, gates, Clock(minutes), console or Console(quiet=True), starts)
    if scenario.federation.backend == "ray":
        work.tell("clients run in this process: actors would still be at work when time is up")
    train(work)
    battery(work)
    if work.crossed(work.rows):
        ladder(work)
    found = conclusion(work)
    write_text(folder.path / "audit.json", json.dumps(found, indent=1) + "\n")
    found["report"] = str(write_report([folder.path]))
    return found


def train(work: Audit) -> None:
    """The federation itself, as far as its share of the time goes."""
    rounds = work.scenario.federation.rounds
    work.tell(f"training {work.scenario.name}, {rounds} rounds")
    show = Trainer(work.console, work.folder, work.starts, milestones(rounds))
    show.deadline = work.clock.at(TRAINING)
    try:
        simulate(work.scenario, work.folder, show)
    except OutOfTime:
        work.tell(f"training ends after round {show.done}: its share of the time is used up")
        state = work.folder.checkpoint_state()
        work.starts.keep(show.done + 1, state, work.folder.clients)
    work.rounds = work.folder.last_round()["round"]


def battery(work: Audit) -> None:
    """The cells of the battery in order, as far as time goes."""
    plugins = work.scenario.plugins
    wanted = cells(work.scenario, work.starts.rounds)
    for index, cell in enumerate(wanted):
        methods = methods_on(plugins, cell)
        to_come = sum(len(methods_on(plugins, one)) for one in wanted[index:])
        place = RunFolder(work.folder.path / "cells" / cell.name)
        limits = sharing(work, to_come)
        rows, skipped = probe(work.scenario, cell, methods, place, work.starts, work.pace, limits)
        work.left_out += [{"cell": cell.name, "attack": label} for label in skipped]
        if rows:
            add(work, cell, place, rows)
            work.findings += examined(place, cell)
    write_text(work.folder.path / "preflight.json", json.dumps(work.findings, indent=1) + "\n")


def examined(place: RunFolder, cell: Cell) -> list[dict[str, str]]:
    """What stands in the way of an attack on a cell's first victim."""
    seen = of_run(place).observations[0]
    name = f"round {cell.round}, batch {cell.batch or 'as configured'}"
    return [
        {"observation": name, "cause": f.cause, "severity": f.severity, "says": f.detail}
        for f in preflight(seen).findings
    ]


def sharing(work: Audit, attacks: int) -> Limits:
    """Twice an even share of what is left for each of the attacks to come.

    As long as the gate holds there is no defence to look for, and all the time is the battery's.
    """
    end = BATTERY if work.crossed(work.rows) else LADDER

    def seconds() -> float:
        return max(0.0, 2 * work.clock.left(end) / attacks)

    return Limits(seconds, work.clock.at(end))


def add(work: Audit, cell: Cell, place: RunFolder, rows: list[Row]) -> None:
    """Put a cell's rows beside the others, with where their guesses are, and show the worst."""
    where = str(place.path.relative_to(work.folder.path))
    own = f"{work.scenario.training.batch_size}, as configured"
    batch = own if cell.batch is None else str(cell.batch)
    work.rows += [
        {**row, "run": work.folder.path.name, "batch": batch, "folder": where} for row in rows
    ]
    write_text(work.folder.scores_file, pd.DataFrame(work.rows).to_csv(index=False))
    worst = work.worst(rows)
    if worst is not None:
        metric = work.gates[0].metric
        text = f"{metric} {worst[metric]:.2f} by {worst['attack']} on client {worst['node']}"
        work.tell(f"round {cell.round}, batch {batch}: worst {text}")


def ladder(work: Audit) -> None:
    """Each defence against what leaked worst, and the accuracy of those that pass."""
    worst = work.worst(work.crossed(work.rows)) or work.crossed(work.rows)[0]
    batch = int(worst["batch"]) if str(worst["batch"]).isdigit() else None
    cell = Cell(int(worst["round"]), batch)
    for name, defended in candidates(work.scenario):
        one = resisted(work, name, defended, cell)
        shown = "–" if one.worst is None else f"{one.worst:.2f}"
        work.tell(f"defence {name}: worst {shown}, {WORDS[one.passes]} {one.why}".rstrip())
        accuracy = accuracy_with(work, name, defended) if one.passes else None
        work.tried.append(replace(one, accuracy=accuracy))


def resisted(work: Audit, name: str, defended: Scenario, cell: Cell) -> Tried:
    """Whether a defence holds in a cell: cheap attacks first, until one crosses the gate.

    It gets the time it needs: one answer is worth more than five attacks cut short.
    """
    methods = methods_on(defended.plugins, cell)
    place = RunFolder(work.folder.path / "defences" / name)
    plugins = " + ".join(map(spelled, defended.plugins))
    training = sum(record["seconds"] for record in work.folder.rounds())
    room = work.clock.left(LADDER)
    left = max(room - training, room / 2)  # the rest is for the accuracy of one that passes
    if left <= 0:
        return Tried(name, plugins, None, None, why="no time to attack it")
    limits = Limits(
        planned=lambda: left,
        deadline=time.monotonic() + left,
        enough=lambda rows: bool(work.crossed(rows)),
        victims=2,
        least=1,
    )
    try:
        rows, skipped = probe(defended, cell, methods, place, work.starts, work.pace, limits)
    except FedprivError as error:
        return Tried(name, plugins, None, None, why=str(error))
    worst = work.worst(rows)
    if worst is None:
        return Tried(name, plugins, None, None, why="no time to attack it")
    value = finite(worst[work.gates[0].metric])
    if work.crossed(rows):
        return Tried(name, plugins, value, False, attacked=len(rows))
    why = f"left out: {', '.join(skipped)}" if skipped else ""
    return Tried(name, plugins, value, None if skipped else True, attacked=len(rows), why=why)


def finite(value: float) -> float:
    """A number that JSON can hold: a perfect copy's PSNR is infinite."""
    return max(-CEILING, min(CEILING, float(value)))


def accuracy_with(work: Audit, name: str, defended: Scenario) -> float | None:
    """Accuracy after the rounds that the audit trained; None when time does not allow it."""
    seconds = sum(record["seconds"] for record in work.folder.rounds())
    if work.clock.left(LADDER) < seconds:
        return None
    place = RunFolder(work.folder.path / "defences" / f"{name}-trained")
    federation = replace(defended.federation, rounds=work.rounds)
    show = Trainer(Console(quiet=True), place, Starts(place.path / "starts"), (), least=0)
    show.deadline = work.clock.at(LADDER)
    work.tell(f"training with {name}, for its accuracy")
    try:
        simulate(replace(defended, federation=federation), place, show)
    except (OutOfTime, FedprivError):
        return None
    rounds = place.rounds()
    return rounds[-1]["accuracy"] if rounds else None


def conclusion(work: Audit) -> dict[str, Any]:
    """The audit as plain tables."""
    crossed = work.crossed(work.rows)
    best = cheapest(work.tried)
    rounds = work.folder.rounds()
    accuracy = rounds[-1]["accuracy"] if rounds else None
    return {
        "folder": str(work.folder.path),
        "gates": [str(gate) for gate in work.gates],
        "passed": bool(work.rows) and not crossed,
        "crossed": len(crossed),
        "attacked": len(work.rows),
        "accuracy": accuracy,
        "rounds": {"trained": work.rounds, "wanted": work.scenario.federation.rounds},
        "clients": clients(work),
        "defences": [asdict(one) for one in work.tried],
        "cheapest": best.name if best else None,
        "left-out": work.left_out,
        "minutes": {
            "given": work.clock.minutes,
            "used": round(work.clock.minutes - work.clock.left(1.0) / 60, 2),
        },
    }


def clients(work: Audit) -> dict[str, dict[str, Any]]:
    """A verdict for every client that was attacked."""
    found: dict[str, dict[str, Any]] = {}
    for node in sorted({int(row["node"]) for row in work.rows}):
        rows = [row for row in work.rows if int(row["node"]) == node]
        worst = work.worst(rows)
        value = None if worst is None else finite(worst[work.gates[0].metric])
        found[str(node)] = {"worst": value, "leaks": bool(work.crossed(rows))}
    return found
