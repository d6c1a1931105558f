"""One cell of an audit: one round of a scenario is exposed from a given start and attacked.

The attacks have a limited time. How many victims each of them gets follows from its pace so far.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import Cell, Method
from fedpriv.simulations.federation.exposure import Starts, exposed, one_more_round
from fedpriv.simulations.judging.attacking import Recording
from fedpriv.simulations.judging.judge import Judged, Turn, judged
from fedpriv.tables import Row

CLIENTS, FEW = 32, 5  # at most so many answer in a cell of single samples, and of batches


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


def cell_scenario(scenario: Scenario, cell: Cell, methods: Sequence[Method]) -> Scenario:
    """The scenario of one cell: one more round, the defence as strong as in training."""
    most = CLIENTS if cell.batch == 1 else FEW
    return one_more_round(
        scenario,
        name=cell.name,
        server_round=cell.round,
        training=cell.training(),
        attacks=[method.plain(cell.round) for method in methods],
        fraction=min(1.0, most / scenario.federation.clients),
    )


@dataclass(frozen=True)
class Limits:
    """How long an attack may take by plan, when work under way ends, and which rows are enough.

    `going_on` says stop when somebody wants the audit to end.
    """

    planned: Callable[[], float]
    deadline: float
    enough: Callable[[list[Row]], bool] = lambda rows: False
    victims: int = CLIENTS  # at most
    least: int = 0
    going_on: Progress = go_on

    def progress(self, part: float, loss: float) -> bool:
        """Whether there is time to go on."""
        return time.monotonic() <= self.deadline and self.going_on(part, loss)


@dataclass(frozen=True)
class Paced:
    """The turns of a cell's attacks: each on as many victims as its share of the time allows.

    An attack whose pace is unknown is tried on two victims first.
    """

    methods: Sequence[Method]
    samples: int
    pace: Pace
    limits: Limits

    def __call__(self, recording: Recording, found: Judged) -> Iterator[Turn]:
        most = min(self.limits.victims, len(recording.evidence))
        for method in self.methods:
            done = 0
            for _ in range(2):
                victims = self.victims(method, most)
                broken = any(each.attack == method.label for each in found.failures)
                if broken or victims <= done or self.limits.enough(found.rows):
                    break
                started = time.monotonic()
                yield method.attack(victims), method.label
                seconds = time.monotonic() - started
                self.pace.note(method.label, victims - done, self.samples, seconds)
                done = victims

    def victims(self, method: Method, most: int) -> int:
        """How many victims an attack has time for, and at least as many as it must have."""
        fit = self.pace.victims(method.label, self.samples, self.limits.planned(), most)
        return max(fit, min(self.limits.least, most))

    def left_out(self, found: Judged) -> list[str]:
        """The attacks without a whole result, and why, where it was not for want of time."""
        failed = {each.attack: each.why for each in found.failures}
        tried = {row["attack"] for row in found.rows}
        cut = {row["attack"] for row in found.rows if row["partial"]}
        missing = {} if self.limits.enough(found.rows) else dict.fromkeys(self.labels - tried)
        why = missing | dict.fromkeys(cut, "cut short") | failed
        return [
            f"{method.label} ({why[method.label]})" if why[method.label] else method.label
            for method in self.methods
            if method.label in why
        ]

    @property
    def labels(self) -> set[str]:
        return {method.label for method in self.methods}


def probe(
    scenario: Scenario,
    cell: Cell,
    methods: Sequence[Method],
    folder: RunFolder,
    starts: Starts,
    pace: Pace,
    limits: Limits,
) -> tuple[list[Row], list[str]]:
    """Scores of the cell's victims, and the attacks without a whole result."""
    turns, told = Paced(methods, cell.samples(scenario), pace, limits), Told(limits.going_on)
    if not any(turns.victims(method, 1) for method in methods):
        return [], [method.label for method in methods]
    chosen = cell_scenario(scenario, cell, methods)
    exposed(chosen, folder, starts, cell.round, told)
    if told.stopped:
        return [], [f"{method.label} (interrupted)" for method in methods]
    found = judged(
        folder,
        chosen,
        metrics=scenario.gate,
        turns=turns,
        scored_only=True,
        progress=limits.progress,
    )
    return found.rows, turns.left_out(found)
