"""One cell of an audit: one round of a scenario is exposed from a given start, and attacked in
time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import Cell, Method
from fedpriv.simulations.federation.exposure import Starts, exposed, one_more_round
from fedpriv.simulations.judging.attacking import Recording, claimed
from fedpriv.simulations.judging.judge import judge_of, scores_of
from fedpriv.simulations.judging.recordings import of_run
from fedpriv.simulations.judging.sums import join_truths
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
    """The scenario of one cell: one more round, the truth kept, the defence as strong as in
    training.
    """
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
    """How long one attack may take by plan, when whatever is under way ends, and what is enough."""

    planned: Callable[[], float]
    deadline: float
    enough: Callable[[list[Row]], bool] = lambda rows: False
    victims: int = CLIENTS  # at most
    least: int = 0

    def progress(self, part: float, loss: float) -> bool:
        """Whether there is time to go on."""
        return time.monotonic() <= self.deadline


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
    chosen = cell_scenario(scenario, cell, methods)
    exposed(chosen, folder, starts, cell.round)
    if chosen.federation.secagg:
        join_truths(folder, chosen.federation.clients)
    recording = of_run(folder)
    # Nobody can be scored who kept no truth: a client that drew no sample.
    known = [seen for seen in recording.evidence if folder.truth_of(seen.name) is not None]
    recording = replace(recording, evidence=known)
    judge = judge_of(chosen, [method.attack() for method in methods], scenario.gate)
    rows: list[Row] = []
    left_out: list[str] = []
    for method in methods:
        if limits.enough(rows):
            break
        victims, why = attacked(method, recording, folder, samples, pace, limits)
        if why or not victims:
            left_out.append(f"{method.label} ({why})" if why else method.label)
        attack = method.attack()
        rows += scores_of(folder, folder.truth_of, recording, judge, attack, method.label)
    return rows, left_out


def attacked(
    method: Method,
    recording: Recording,
    folder: RunFolder,
    samples: int,
    pace: Pace,
    limits: Limits,
) -> tuple[int, str]:
    """Attack as many victims as there is time for; how many, and why not all of them.

    When the pace is unknown, two victims come first.
    """
    done = 0
    most = min(limits.victims, len(recording.evidence))
    for _ in range(2):
        victims = pace.victims(method.label, samples, limits.planned(), most)
        victims = max(victims, min(limits.least, most))
        if victims <= done:
            break
        started = time.monotonic()
        attack = method.attack(victims)
        failures = claimed(recording, attack, method.label, folder, progress=limits.progress)
        pace.note(method.label, victims - done, samples, time.monotonic() - started)
        if failures:
            return 0, failures[0].why
        done = victims
    cut = any(claim.partial for claim in folder.claims(method.label))
    return done, "cut short" if cut else ""
