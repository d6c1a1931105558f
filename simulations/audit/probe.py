"""One cell of an audit: the clients of a scenario train one round from a given start, and are attacked."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.plugins.differential_privacy import noise_for, steps_of, turns_of
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import alike
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.scenario.binding import parameters
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sections import Spec
from fedpriv.simulations.audit.battery import Cell, Method
from fedpriv.simulations.federation.progress import PlainLines, Show
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.attacking import Recording, of_run, scores_of
from fedpriv.simulations.judging.scoring import Row
from fedpriv.state import State
from fedpriv.strategies.rounds import Record

CLIENTS, FEW = 32, 5  # at most so many answer in a cell of single samples, and of batches


class OutOfTime(Exception):
    """What is under way has had its share of the audit's time."""


@dataclass(frozen=True)
class Starts:
    """Public models and private client states as they were before some rounds."""

    path: Path

    def keep(self, before: int, state: State, clients: Path) -> None:
        """Keep what round `before` starts from."""
        place = RunFolder(self.path / str(before))
        place.save_model(state, {"round": before - 1})
        if clients.is_dir():
            shutil.copytree(clients, place.clients, dirs_exist_ok=True)

    @property
    def rounds(self) -> list[int]:
        """The rounds that can be started: the first always can."""
        return sorted({1, *(int(place.name) for place in self.path.glob("[0-9]*"))})

    def give(self, before: int, folder: RunFolder) -> bool:
        """Put what round `before` starts from into a folder; False for a first round, which needs nothing."""
        place = RunFolder(self.path / str(before))
        if before == 1 or not place.model_file.exists():
            return False
        folder.save_model(load_state(place.model_file), {"round": before - 1})
        if place.clients.is_dir():
            shutil.copytree(place.clients, folder.clients, dirs_exist_ok=True)
        return True


@dataclass
class Pace:
    """Seconds that each attack last took for a victim and a sample: what the next will take."""

    last: dict[str, float] = field(default_factory=dict)

    def note(self, label: str, victims: int, samples: int, seconds: float) -> None:
        self.last[label] = seconds / (victims * samples)

    def victims(self, label: str, samples: int, seconds: float, most: int) -> int:
        """How many victims fit into the time; two when nothing is known yet."""
        if label not in self.last:
            return min(2, most)
        return min(most, int(max(0.0, seconds) / (self.last[label] * samples)))


def quiet() -> Show:
    return PlainLines(Console(quiet=True))


def variant(scenario: Scenario, cell: Cell, methods: Sequence[Method]) -> Scenario:
    """The scenario of one cell: one more round, the truth kept, the defence as strong as in training."""
    most = CLIENTS if cell.batch == 1 else FEW
    share = min(1.0, most / scenario.federation.clients)
    federation = {"rounds": cell.round, "strategy": "fedavg", "fraction": share}
    above = {"name": cell.name, "keep-truth": True, "federation": federation}
    tables = merged(scenario.plain(), {**above, "training": cell.training()})
    tables["plugins"] = [as_in_training(spec, scenario) for spec in scenario.plugins]
    tables["attacks"] = [method.plain(cell.round) for method in methods]
    tables.pop("strategy", None)
    return from_tables(tables)


def as_in_training(spec: Spec, scenario: Scenario) -> dict[str, Any]:
    """A plugin's row; the ε of a whole run becomes the noise that the run's own batches get."""
    epsilon = spec.options.get("epsilon")
    if spec.name != "dp" or epsilon is None:
        return spec.plain()
    samples = min(map(len, shares_of(scenario)))
    rate = min(1.0, scenario.training.batch_size / samples)
    steps = steps_of(scenario, samples) * turns_of(scenario)
    delta, kind = spec.options.get("delta", 1e-5), spec.options.get("accountant", "rdp")
    noise = noise_for(float(epsilon), float(delta), rate, steps, str(kind))
    options = {k: v for k, v in spec.options.items() if k not in ("epsilon", "budget")}
    return {"name": "dp", **options, "noise-multiplier": noise}


@dataclass(frozen=True)
class Limits:
    """How long one attack may take by plan, when whatever is under way ends, and what is enough."""

    planned: Callable[[], float]
    deadline: float
    enough: Callable[[list[Row]], bool] = lambda rows: False
    victims: int = CLIENTS  # at most
    least: int = 0


def probe(
    scenario: Scenario,
    cell: Cell,
    methods: Sequence[Method],
    folder: RunFolder,
    starts: Starts,
    pace: Pace,
    limits: Limits,
) -> tuple[list[Row], list[str]]:
    """Scores of the cell's victims, and the attacks there was no time for."""
    samples = cell.samples(scenario)
    slots = [pace.victims(method.label, samples, limits.planned(), 1) for method in methods]
    if not limits.least and not any(slots):
        return [], [method.label for method in methods]
    chosen = variant(scenario, cell, methods)
    folder.start(chosen)
    starts.give(cell.round, folder)
    simulate(chosen, folder, quiet(), resume=True)
    recording = of_run(folder)
    kept = {path.stem for path in folder.truth.glob("*.npz")}  # not of clients that drew no sample
    observations = [seen for seen in recording.observations if seen.name in kept]
    recording = replace(recording, observations=observations)
    rows: list[Row] = []
    left_out: list[str] = []
    for method in methods:
        if limits.enough(rows):
            break
        victims, cut = attacked(method, recording, folder, samples, pace, limits)
        if cut or not victims:
            left_out.append(f"{method.label} (cut short)" if victims else method.label)
        found = scores_of(folder.attacks, folder.truth, recording, method.label, method.name)
        rows += [{**row, "informed": method.informed} for row in found]
    return rows, left_out


def attacked(
    method: Method,
    recording: Recording,
    folder: RunFolder,
    samples: int,
    pace: Pace,
    limits: Limits,
) -> tuple[int, bool]:
    """Attack as many victims as there is time for; how many, and whether the deadline cut it short.

    When the pace is unknown, two victims come first.
    """
    done, cut = 0, False
    most = min(limits.victims, len(recording.observations))
    for _ in range(2):
        victims = pace.victims(method.label, samples, limits.planned(), most)
        victims = max(victims, min(limits.least, most))
        if victims <= done:
            break
        some, started = recording.observations[done:victims], time.monotonic()
        cut |= guess(method, some, folder.attacks / method.label, limits.deadline)
        pace.note(method.label, len(some), samples, time.monotonic() - started)
        done = victims
    return done, cut


def guess(method: Method, victims: list[Observation], out: Path, deadline: float) -> bool:
    """Attack and save; at the deadline the best guesses so far are taken, and True is returned."""

    def watched(part: float, loss: float) -> None:
        if time.monotonic() > deadline:
            raise KeyboardInterrupt  # which is how an attack is told to give what it has

    takes = parameters(ATTACKS[method.name].build)
    given = {"progress": watched} if "progress" in takes else {}
    attack = ATTACKS.build(method.name, method.options, **given)
    cut = False
    for group in alike(victims):
        found = attack(group)
        for number, name in enumerate(found.names):
            found.of(number).save(out / f"{name}.npz")
        cut |= bool(found.extra.get("interrupted"))
    return cut


class Trainer(PlainLines):
    """Keeps the starts of some rounds, and ends training when time is up and the `least` rounds are done."""

    def __init__(
        self,
        console: Console,
        folder: RunFolder,
        starts: Starts,
        rounds: tuple[int, ...],
        least: int = 1,
    ):
        super().__init__(console)
        self.folder, self.starts, self.wanted, self.least = folder, starts, rounds, least
        self.deadline = float("inf")
        self.done = 0

    def on_reply(self, node: int) -> None:
        if self.done >= self.least and time.monotonic() > self.deadline:
            raise OutOfTime

    def on_round(self, record: Record, state: State) -> None:
        super().on_round(record, state)
        self.done = record["round"]
        if self.done + 1 in self.wanted:
            self.starts.keep(self.done + 1, state, self.folder.clients)
