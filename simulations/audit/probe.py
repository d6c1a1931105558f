"""One cell of an audit: the clients of a scenario train one round from a given start, and are attacked."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from attacks.catalogue import ATTACKS
from fedpriv.binding import parameters
from fedpriv.observation import Observation
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.state import State
from fedpriv.victims import alike
from simulations.attack import of_run, scores_of
from simulations.audit.battery import Cell, Method
from simulations.progress import PlainLines, Show
from simulations.run import simulate
from simulations.scoring import Row
from strategies.rounds import Record

CLIENTS = 32  # at most so many answer in a cell


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
    """The scenario of one cell: one more round, every client asked, the truth kept."""
    share = min(1.0, CLIENTS / scenario.federation.clients)
    federation = {"rounds": cell.round, "strategy": "fedavg", "fraction": share}
    above = {"name": cell.name, "audit": True, "federation": federation}
    tables = merged(scenario.plain(), {**above, "training": cell.training()})
    tables["attacks"] = [method.plain(cell.round) for method in methods]
    tables.pop("strategy", None)
    return from_tables(tables)


@dataclass(frozen=True)
class Limits:
    """How long one attack may take by plan, and when whatever is under way is given up."""

    planned: Callable[[], float]
    deadline: float


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
    chosen = variant(scenario, cell, methods)
    folder.start(chosen)
    starts.give(cell.round, folder)
    simulate(chosen, folder, quiet(), resume=True)
    recording = of_run(folder)
    samples = cell.samples(scenario)
    rows: list[Row] = []
    left_out: list[str] = []
    for method in methods:
        attacked = 0
        for _ in range(2):  # two victims to learn the pace when it is unknown, then the others
            most = len(recording.observations)
            victims = pace.victims(method.label, samples, limits.planned(), most)
            if victims <= attacked:
                break
            some = recording.observations[attacked:victims]
            started = time.monotonic()
            try:
                guess(method, some, folder.attacks / method.label, limits.deadline)
            except OutOfTime:
                break
            pace.note(method.label, len(some), samples, time.monotonic() - started)
            attacked = victims
        if not attacked:
            left_out.append(method.label)
        found = scores_of(folder.attacks, folder.truth, recording.about, method.label, method.name)
        rows += [{**row, "informed": method.informed} for row in found]
    return rows, left_out


def guess(method: Method, victims: list[Observation], out: Path, deadline: float) -> None:
    """Attack and save; OutOfTime at the deadline, where the attack tells of its progress."""

    def watched(part: float, loss: float) -> None:
        if time.monotonic() > deadline:
            raise OutOfTime

    takes = parameters(ATTACKS[method.name].build)
    given = {"progress": watched} if "progress" in takes else {}
    attack = ATTACKS.build(method.name, method.options, **given)
    for group in alike(victims):
        found = attack(group)
        for number, name in enumerate(found.names):
            found.of(number).save(out / f"{name}.npz")


class Trainer(PlainLines):
    """Keeps the starts of some rounds, and ends training between two rounds when time is up."""

    def __init__(
        self, console: Console, folder: RunFolder, starts: Starts, rounds: tuple[int, ...]
    ):
        super().__init__(console)
        self.folder, self.starts, self.wanted = folder, starts, rounds
        self.deadline = float("inf")
        self.done = 0

    def on_reply(self, node: int) -> None:
        if self.done and time.monotonic() > self.deadline:
            raise OutOfTime

    def on_round(self, record: Record, state: State) -> None:
        super().on_round(record, state)
        self.done = record["round"]
        if self.done + 1 in self.wanted:
            self.starts.keep(self.done + 1, state, self.folder.clients)
