"""`fedpriv audit`: train, attack with the standard battery, look for a defence that passes."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console

from fedpriv.errors import BadOption, FedprivError
from fedpriv.lock import alone
from fedpriv.metrics.gates import Gate, default_gates, gates_of
from fedpriv.progress import Progress, Told, go_on
from fedpriv.report.page import write_report
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Attack, spelled
from fedpriv.simulations.audit.battery import Cell, cells, methods_on, milestones
from fedpriv.simulations.audit.ladder import Tried, candidates, cheapest
from fedpriv.simulations.audit.probe import Limits, Pace, probe
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import deliberate_threads, simulate
from fedpriv.simulations.judging.findings import Finding
from fedpriv.simulations.judging.gate import check_gates
from fedpriv.strategies.catalogue import row_of
from fedpriv.tables import Row

# Training, the battery and the defences each end after this part of the time. The rest is for the
# page.
TRAINING, BATTERY, LADDER = 0.3, 0.5, 0.95
LONGEST = 100_000  # minutes, about ten weeks
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
    told: Told  # says stop when somebody wants the audit to end
    own: tuple[Attack, ...] = ()  # the rows of the scenario's [[attacks]]
    pace: Pace = field(default_factory=Pace)
    rows: list[Row] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    rounds: int = 0

    def going_on(self) -> bool:
        return self.told(0.0, math.nan)

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
        return self.gates[0].worst(rows)


@alone()
def audit(
    scenario: Scenario,
    folder: RunFolder,
    *,
    minutes: float = 10.0,
    fail_if: Iterable[str] = (),
    resume: bool = False,
    console: Console | None = None,
    progress: Progress = go_on,
) -> dict[str, Any]:
    """Everything an audit found, also in `verdict.json`; its page is `report.html` in the folder.

    When `progress` says stop, the audit ends with what it has: `interrupted` is true.
    """
    if row_of(scenario).reply != "update":
        raise BadOption(
            f"An audit attacks updates, and strategy '{scenario.federation.strategy}' shares "
            f"{row_of(scenario).reply}; `fedpriv run` attacks codes."
        )
    if not 0 < minutes < LONGEST:
        raise BadOption(f"--minutes must be above 0 and below {LONGEST}, got {minutes}.")
    deliberate_threads()
    gates = gates_of(scenario.gate, fail_if) or default_gates()
    check_gates(gates, scenario, attacks_of(scenario))
    plain = replace(
        scenario,
        attacks=(),
        keep_truth=False,
        gate={gate.metric: gate.bound for gate in gates},
        variants=(),
        sweep=None,
        federation=replace(scenario.federation, backend="inline"),
    )
    starts = Starts(folder.path / "starts")
    shown = console or Console(quiet=True)
    told = Told(progress)
    work = Audit(plain, folder, gates, Clock(minutes), shown, starts, told, scenario.attacks)
    if scenario.federation.backend == "ray":
        work.tell("clients run in this process: actors would still be at work when time is up")
    train(work, resume)
    battery(work)
    if work.crossed(work.rows):
        ladder(work)
    found = conclusion(work)
    folder.write_gates(map(str, gates))
    folder.write_verdict(found)
    found["report"] = str(write_report([folder.path]))
    return found


def attacks_of(scenario: Scenario) -> list[str]:
    """Every attack that the battery will try on the scenario, by the catalogue's names."""
    tried = cells(scenario, milestones(scenario.federation.rounds))
    found = [
        method.name for cell in tried for method in methods_on(scenario, cell, scenario.attacks)
    ]
    return list(dict.fromkeys(found))


def in_time(deadline: float, least: int = 1) -> Callable[[dict[str, Any]], bool]:
    """Whether another round as long as the last one ends before the deadline.

    There are `least` rounds in any case.
    """

    def going_on(record: dict[str, Any]) -> bool:
        found: bool = record["round"] < least or time.monotonic() + record["seconds"] <= deadline
        return found

    return going_on


def train(work: Audit, resume: bool) -> None:
    """The federation itself, as far as its share of the time goes."""
    rounds = work.scenario.federation.rounds
    work.tell(f"training {work.scenario.name}, {rounds} rounds")
    simulate(
        work.scenario,
        work.folder,
        PlainLines(work.console),
        resume=resume,
        starts=work.starts,
        keep=milestones(rounds),
        going_on=in_time(work.clock.at(TRAINING)),
        progress=work.told,
    )
    work.rounds = work.folder.last_round()["round"]
    if not work.rounds:
        work.folder.keep_rounds(0)  # an empty file: a page can be made of a run without rounds
    if work.rounds < rounds and work.going_on():
        work.tell(f"training ends after round {work.rounds}: its share of the time is used up")


def battery(work: Audit) -> None:
    """The cells of the battery in order, as far as time goes."""
    known = [number for number in work.starts.rounds() if number <= work.rounds + 1]
    wanted = cells(work.scenario, known)
    for index, cell in enumerate(wanted):
        methods = methods_on(work.scenario, cell, work.own)
        to_come = sum(len(methods_on(work.scenario, one, work.own)) for one in wanted[index:])
        place = work.folder.below("cells", cell.name)
        if not work.going_on():
            skipped = [f"{method.label} (interrupted)" for method in methods]
            work.left_out += [{"cell": cell.name, "attack": label} for label in skipped]
            continue
        limits = sharing(work, to_come)
        rows, skipped = probe(work.scenario, cell, methods, place, work.starts, work.pace, limits)
        work.left_out += [{"cell": cell.name, "attack": label} for label in skipped]
        if rows:
            add(work, cell, place, rows)
            work.findings += in_the_way(place, cell)
    work.folder.write_findings(work.findings)


def in_the_way(place: RunFolder, cell: Cell) -> list[Finding]:
    """What stands in the way of attacks in a cell."""
    name = f"round {cell.round}, batch {cell.batch or 'as configured'}"
    return [{**finding, "evidence": [name]} for finding in place.findings()]


def sharing(work: Audit, attacks: int) -> Limits:
    """Twice an even share of what is left for each of the attacks to come.

    As long as the gate holds there is no defence to look for, and all the time is the battery's.
    """
    end = BATTERY if work.crossed(work.rows) else LADDER

    def seconds() -> float:
        return max(0.0, 2 * work.clock.left(end) / attacks)

    return Limits(seconds, work.clock.at(end), going_on=work.told)


def add(work: Audit, cell: Cell, place: RunFolder, rows: list[Row]) -> None:
    """Put a cell's rows beside the others, with where their guesses are, and show the worst."""
    where = str(place.path.relative_to(work.folder.path))
    own = f"{work.scenario.training.batch_size}, as configured"
    batch = own if cell.batch is None else str(cell.batch)
    work.rows += [
        {**row, "run": work.folder.path.name, "batch": batch, "folder": where} for row in rows
    ]
    work.folder.write_scores(work.rows)
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
        if not work.going_on():
            break
        one = resisted(work, name, defended, cell)
        shown = "–" if one.worst is None else f"{one.worst:.2f}"
        work.tell(f"defence {name}: worst {shown}, {WORDS[one.passes]} {one.why}".rstrip())
        accuracy = accuracy_with(work, name, defended) if one.passes else None
        work.tried.append(replace(one, accuracy=accuracy))


def resisted(work: Audit, name: str, defended: Scenario, cell: Cell) -> Tried:
    """Whether a defence holds in a cell: cheap attacks first, until one crosses the gate.

    It gets the time it needs: one answer is worth more than five attacks cut short.
    """
    methods = methods_on(defended, cell, work.own)
    place = work.folder.below("defences", name)
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
        going_on=work.told,
    )
    try:
        rows, skipped = probe(defended, cell, methods, place, work.starts, work.pace, limits)
    except FedprivError as error:
        return Tried(name, plugins, None, None, why=str(error))
    worst = work.worst(rows)
    if worst is None:
        return Tried(name, plugins, None, None, why="no time to attack it")
    value = float(worst[work.gates[0].metric])
    if work.crossed(rows):
        return Tried(name, plugins, value, False, attacked=len(rows))
    why = f"left out: {', '.join(skipped)}" if skipped else ""
    return Tried(name, plugins, value, None if skipped else True, attacked=len(rows), why=why)


def accuracy_with(work: Audit, name: str, defended: Scenario) -> float | None:
    """Accuracy after the rounds that the audit trained; None when time does not allow it."""
    seconds = sum(record["seconds"] for record in work.folder.rounds())
    if work.clock.left(LADDER) < seconds:
        return None
    place = work.folder.below("defences", f"{name}-trained")
    federation = replace(defended.federation, rounds=work.rounds)
    work.tell(f"training with {name}, for its accuracy")
    try:
        simulate(
            replace(defended, federation=federation),
            place,
            PlainLines(Console(quiet=True)),
            resume=place.rounds_file.exists(),  # of an audit that was cut short
            going_on=in_time(work.clock.at(LADDER), least=0),
            progress=work.told,
        )
    except FedprivError:
        return None
    rounds = place.rounds()
    return rounds[-1]["accuracy"] if len(rounds) == work.rounds else None


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
        "interrupted": work.told.stopped,
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
        value = None if worst is None else float(worst[work.gates[0].metric])
        found[str(node)] = {"worst": value, "leaks": bool(work.crossed(rows))}
    return found
