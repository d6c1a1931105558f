"""A trial of a large profile: does all of it run, and how many hours would it take?

Of every training the first hundredth is done, and of every kind of attack one victim with a
hundredth of the steps. Processor times are multiplied up from there. What takes its time once
(loading data, the first step) is multiplied too, so that the whole takes less than is said here.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from fedpriv.errors import BadFolder, FedprivError
from fedpriv.progress import Progress, Told
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.built import training_samples
from fedpriv.simulations.forecast import option
from fedpriv.simulations.reproduce.carrying import Place
from fedpriv.simulations.reproduce.cells import Cell, cells_of
from fedpriv.simulations.reproduce.experiment import Experiment
from fedpriv.simulations.reproduce.rows import rows_of_run, rows_of_sweep
from fedpriv.simulations.sweep.cells import cells_of as attacks_of
from fedpriv.simulations.sweep.cells import training_key
from fedpriv.tables import Row, read_table, rows_in, write_table

PART = 100  # a trial does one of so many steps
TABLE = "trials.csv"


def shortened(scenario: Scenario) -> Scenario:
    """The scenario with a hundredth of its training, and one short attack of each kind."""
    tables = scenario.plain()
    tables["federation"] |= {"rounds": rounds_of(scenario)}
    if scenario.representation:
        kept = ceil(len(training_samples(scenario)[0]) * longest(scenario) / PART)
        tables["data"] |= {"limit": kept}
        tables["representation"] |= {f"{what}-epochs": 1 for what in ("encoder", "decoder", "task")}
    if scenario.sweep:
        attacks = {cell.attack.name: cell.attack for cell in attacks_of(scenario)}
        options = {
            name: {**attack.options, "steps": ceil(steps / PART)}
            for name, attack in attacks.items()
            if (steps := option(attack, "steps", 0))
        }
        tables["sweep"] |= {"victims": 1, "options": {**scenario.sweep.options, **options}}
        tables["defences"] = [
            one | {"values": list(one.get("values", []))[:1]} for one in tables["defences"]
        ]
    return from_tables(tables)


def rounds_of(scenario: Scenario) -> int:
    return ceil(scenario.federation.rounds / PART)


def longest(scenario: Scenario) -> int:
    """The epochs of the longest training on codes; the others are taken to be as long."""
    own = scenario.representation
    return max(own.encoder_epochs, own.decoder_epochs, own.task_epochs) if own else 0


def whole(scenario: Scenario) -> float:
    """How many times as long as its trial a run is, at most."""
    return PART if scenario.representation else scenario.federation.rounds / rounds_of(scenario)


@dataclass(frozen=True)
class Trial:
    """One cell of an experiment, to be tried."""

    experiment: Experiment
    full: Scenario
    cell: Cell

    def rows(self) -> list[Row]:
        """What was run, for how long, and the hours of the whole; none when it was stopped."""
        if (kept := self.cell.rows()) is not None:
            return kept
        started, worked = time.monotonic(), time.process_time()
        sweeps = self.experiment.work == "sweep"
        found = (rows_of_sweep if sweeps else rows_of_run)(self.cell)
        if not found:
            return []
        spent, cpu = time.monotonic() - started, time.process_time() - worked
        # What a sweep tells are seconds of the clock; a busy machine gave it a part of them.
        seconds = seconds_of_sweep(found, self.full) if sweeps else spent * whole(self.full)
        row: Row = {
            "experiment": self.cell.experiment,
            "profile": self.cell.profile,
            "run": self.cell.variant,
            "attacks": len({(one.get("defence"), one.get("attack", "")) for one in found}),
            "seconds": round(cpu, 1),
            "hours": round(cpu / spent * seconds * len(self.experiment.seeds) / 3600, 2),
            "seeds": len(self.experiment.seeds),
        }
        self.cell.keep([row])
        return [row]


def seconds_of_sweep(rows: Sequence[Row], full: Scenario) -> float:
    """All trainings and attacks of one seed, from those of the trial."""
    training = {row["defence"]: float(row["training-seconds"]) for row in rows}
    attack = {(row["defence"], row["batch"], row["attack"]): float(row["seconds"]) for row in rows}
    cells = attacks_of(full)
    trained = {training_key(cell.setting): cell.setting.defence for cell in cells}
    seconds = sum(training[name] for name in trained.values()) * whole(full)
    for cell in cells:
        steps = option(cell.attack, "steps", 0)
        times = steps / ceil(steps / PART) if steps else 1.0
        victims = cell.attack.victims or 1
        key = (cell.setting.defence, cell.batch, cell.attack.name)
        seconds += attack[key] * times * victims
    return seconds


def trials_of(
    experiment: Experiment, folder: Path, profile: str, progress: Progress
) -> Iterator[Trial]:
    """A trial of each cell of the first seed; what is computed without a scenario has none."""
    if callable(experiment.work):
        return
    for cell in cells_of(experiment, experiment.seeds[:1], folder, profile):
        short = replace(cell, scenario=shortened(cell.scenario), progress=progress, workers=1)
        yield Trial(experiment, cell.scenario, short)


def tried(
    experiments: Sequence[Experiment],
    place: Place,
    profile: str,
    *,
    resume: bool,
    tell: Callable[[str], None],
    told: Told,
) -> list[str]:
    """Try all of these; the table of trials is written after each cell. Gives what failed."""
    failed: list[str] = []
    for experiment in experiments:
        try:
            for trial in trials_of(experiment, place.work / "trial", profile, told):
                if trial.cell.rows_file.exists() and not resume:
                    raise BadFolder(
                        f"'{trial.cell.rows_file}' is there already; give --resume to keep what "
                        "was tried, or remove the folder to start again."
                    )
                rows = [] if told.stopped else trial.rows()
                noted(place.out / "measured" / TABLE, rows)
                for row in rows:
                    tell(f"{trial.cell.name}: {row['seconds']:.0f} s; all of it {row['hours']} h")
        except BadFolder:
            raise
        except FedprivError as error:
            failed.append(f"{experiment.name}: {error}")
    return failed


def noted(path: Path, rows: Sequence[Row]) -> None:
    """The rows in the table, in the place of older ones of the same runs."""
    keys = ("experiment", "profile", "run")
    new = [tuple(str(row[key]) for key in keys) for row in rows]
    kept = [
        row
        for row in rows_in(read_table(path))
        if tuple(str(row.get(key, "")) for key in keys) not in new
    ]
    write_table(path, [*kept, *rows])


def hours_of(experiment: str, tables: Path) -> str:
    """What trials say of an experiment's paper profile, in words; empty when there is none."""
    rows = tried_of(experiment, "paper", tables)
    if not rows:
        return ""
    seconds, hours = (sum(float(row[key]) for row in rows) for key in ("seconds", "hours"))
    runs = f"{len(rows)} runs, " if len(rows) > 1 else ""
    return (
        f"`{experiment}`: the first hundredth of the steps ran ({runs}{seconds:.0f} s); all of "
        f"it, with {rows[0]['seeds']} seeds, takes at most {ceil(hours) or 1} hours of one core"
    )


def too_long(experiment: str, tables: Path) -> str:
    """Why an experiment was not run: the hours that a trial of its small profile said."""
    if not (rows := tried_of(experiment, "small", tables)):
        return ""
    hours = sum(float(row["hours"]) for row in rows)
    span = f"{ceil(hours)} hours" if hours > 1 else f"{ceil(60 * hours) or 1} minutes"
    return f"not run; {rows[0]['seeds']} seeds take at most {span} of one core, says a trial"


def tried_of(experiment: str, profile: str, tables: Path) -> list[Row]:
    rows = rows_in(read_table(tables / TABLE))
    return [row for row in rows if (row["experiment"], row["profile"]) == (experiment, profile)]
