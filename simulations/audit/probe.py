"""What a stage of an audit works with, one exposed cell, and what comes of the stage."""

import math
import time
from dataclasses import dataclass, field
from typing import Any

from fedpriv.evidence.victims import slots_of
from fedpriv.metrics.gates import Gate
from fedpriv.progress import Progress, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.audit.battery import Method
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.tasks import Carry
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.judging.attacking import Recording
from fedpriv.simulations.judging.outcome import Outcome
from fedpriv.tables import Row


@dataclass(frozen=True)
class Probe:
    """One exposed cell: where it is, and what was recorded there of those who are counted.

    `planted` are the names of the others: the attacker planted them and knows their samples.
    """

    cell: Cell
    scenario: Scenario
    folder: RunFolder
    recording: Recording
    planted: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """How many samples of one client its update depends on."""
        return slots_of(self.recording.updates[0])


@dataclass
class Found:
    """What came of a stage: scores, what is missing, how races ended, seconds and units."""

    rows: list[Row] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # who cannot act here, and why
    absent: dict[str, str] = field(default_factory=dict)  # who lacks data that it needs, and why
    turned_away: dict[str, str] = field(default_factory=dict)  # malicious servers nobody answered
    races: dict[str, Any] = field(default_factory=dict)
    attacks: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    units: int = 0
    methods: dict[Cell, tuple[Method, ...]] = field(default_factory=dict)  # as carried out
    controls: list[Row] = field(default_factory=list)  # scores on planted clients, undefended
    trials: dict[str, Any] = field(default_factory=dict)  # how many steps attacks need, by cell
    told: list[Row] = field(default_factory=list)  # scores of a server that is told more
    held: list[Outcome] = field(default_factory=list)  # what not even that one can claim

    def lacks(self, cell: Cell, attack: str, why: str) -> None:
        self.missing.append({"cell": cell.name, "attack": attack, "why": why})


@dataclass(frozen=True)
class Means:
    """What every stage works with."""

    starts: Starts
    carry: Carry
    deadline: float  # of the system's clock
    own: tuple[Attack, ...] = ()  # the rows of the scenario's [[attacks]]
    gates: tuple[Gate, ...] = ()  # their metrics are computed besides those of the catalogue
    told: Progress = go_on  # says stop when somebody wants the audit to end

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(gate.metric for gate in self.gates)

    def in_time(self, part: float = 0.0, loss: float = math.nan) -> bool:
        """Whether there is time left, and nobody wants the audit to end."""
        return self.told(part, loss) and time.time() < self.deadline
