"""One cell of an audit: the clients of a scenario train one round from a given start, and are attacked."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.sections import Attack
from fedpriv.state import State
from simulations.attack import of_run, reconstructed, scores_of
from simulations.audit.battery import Cell
from simulations.progress import PlainLines, Show
from simulations.run import simulate
from simulations.scoring import Row
from strategies.rounds import Record

CLIENTS = 32  # at most so many answer in a cell


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
    """Seconds that an attack took for a victim and a sample, at worst: what the next will take."""

    worst: dict[str, float] = field(default_factory=dict)

    def note(self, attack: str, victims: int, samples: int, seconds: float) -> None:
        each = seconds / max(1, victims * samples)
        self.worst[attack] = max(self.worst.get(attack, 0.0), each)

    def victims(self, attack: str, samples: int, seconds: float, most: int) -> int:
        """How many victims fit into the time; two when nothing is known yet."""
        if attack not in self.worst:
            return min(2, most)
        return min(most, int(seconds / (self.worst[attack] * samples)))


def quiet() -> Show:
    return PlainLines(Console(quiet=True))


def variant(scenario: Scenario, cell: Cell, attacks: list[str]) -> Scenario:
    """The scenario of one cell: one more round, every client asked, the truth kept."""
    share = min(1.0, CLIENTS / scenario.federation.clients)
    federation = {"rounds": cell.round, "strategy": "fedavg", "fraction": share}
    tables = merged(
        scenario.plain(),
        {
            "name": cell.name,
            "audit": True,
            "training": cell.training(),
            "federation": federation,
        },
    )
    tables["attacks"] = [{"name": name, "rounds": [cell.round]} for name in attacks]
    tables.pop("strategy", None)
    return from_tables(tables)


def probe(
    scenario: Scenario,
    cell: Cell,
    attacks: list[str],
    folder: RunFolder,
    starts: Starts,
    pace: Pace,
    time_for: Callable[[], float],
) -> tuple[list[Row], list[str]]:
    """Scores of the cell's victims, and the attacks there was no time for."""
    chosen = variant(scenario, cell, attacks)
    folder.start(chosen)
    starts.give(cell.round, folder)
    simulate(chosen, folder, quiet(), resume=True)
    recording = of_run(folder)
    rows: list[Row] = []
    left_out: list[str] = []
    samples = cell.samples(scenario)
    for name in attacks:
        most = len(recording.observations)
        victims = pace.victims(name, samples, time_for(), most)
        if victims < 1:
            left_out.append(name)
            continue
        started = time.monotonic()
        attack = Attack(name=name, rounds=(cell.round,), victims=victims)
        reconstructed(recording, attack, name, folder.attacks)
        pace.note(name, victims, samples, time.monotonic() - started)
        rows += scores_of(folder.attacks, folder.truth, recording.about, name, name)
    return rows, left_out


class OutOfTime(Exception):
    """Training has taken its share of the audit's time."""


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
