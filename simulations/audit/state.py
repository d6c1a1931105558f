"""An audit while it goes on: its time, its means, and what it has found so far."""

import time
from dataclasses import dataclass, field

from rich.console import Console

from fedpriv.metrics.gates import Gate
from fedpriv.progress import Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.ladder import (
    Tried,
)
from fedpriv.simulations.audit.probe import Found, Means
from fedpriv.simulations.audit.work import Rate
from fedpriv.simulations.judging.findings import Finding

PAGE = 0.06  # the part of the time that the page takes


@dataclass
class Clock:
    """The audit's time by the system's clock; without minutes it never runs out."""

    minutes: float | None
    started: float = field(default_factory=time.time)

    @property
    def deadline(self) -> float:
        return self.at(1 - PAGE)

    def at(self, part: float) -> float:
        return float("inf") if self.minutes is None else self.started + 60 * self.minutes * part

    def left(self) -> float:
        return self.deadline - time.time()


@dataclass
class Audit:
    """What an audit has found so far."""

    scenario: Scenario
    folder: RunFolder
    gates: list[Gate]
    clock: Clock
    console: Console
    means: Means
    told: Told  # says stop when somebody wants the audit to end
    workers: int
    named: str  # how people name the scenario in a command
    rounds: int = 0
    units: int = 0
    full: int = 0  # what all required attacks take with all their steps
    rate: Rate | None = None
    training: float = 0.0  # computing seconds of the training itself
    own: Found = field(default_factory=Found)
    between: Found = field(default_factory=Found)  # configured too, but not required
    series: Found = field(default_factory=Found)  # of all rounds of the training together
    possible: Found = field(default_factory=Found)
    malicious: Found = field(default_factory=Found)  # what servers read that change the model
    guarded: Found | None = None  # the same behind a guard
    tried: list[Tried] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    where: str = ""  # the cell that defences were tried in
    price_of_own: str = ""  # what the plugins cost that the federation has, where nothing leaks
    findings: list[Finding] = field(default_factory=list)

    def tell(self, text: str) -> None:
        left = (
            ""
            if self.clock.minutes is None
            else f"{max(0.0, self.clock.left() / 60):5.1f} min left  "
        )
        self.console.print(f"{left}{text}", highlight=False, soft_wrap=True)

    def in_time(self) -> bool:
        """Whether there is time left, and nobody wants the audit to end."""
        return self.means.in_time()
