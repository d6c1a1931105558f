"""The standard battery: the rounds, batch sizes and attacks that an audit tries, in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.conditions import informed_of, why_not


@dataclass(frozen=True)
class Method:
    """An attack of the catalogue with the options it has in audits, and what audits call it."""

    label: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def attack(self, victims: int | None = None) -> Attack:
        return Attack(name=self.name, victims=victims, options=dict(self.options))

    def plain(self, server_round: int) -> dict[str, Any]:
        """Its row of [[attacks]]."""
        return {"name": self.name, "rounds": [server_round], **self.options}


STANDARD = (
    Method("quick", "quick", {"tv": 0.01}),
    Method("thorough", "quick", {"tv": 0.001, "steps": 600}),
)
BATCHES = (1, 4, 8)


@dataclass(frozen=True)
class Cell:
    """One round at one batch size; None is the scenario's own training, all its local steps."""

    round: int
    batch: int | None

    @property
    def name(self) -> str:
        return f"round-{self.round}-batch-{self.batch or 'own'}"

    def training(self) -> dict[str, int]:
        """The settings in which this cell differs from the scenario's [training]."""
        return {} if self.batch is None else {"batch-size": self.batch, "local-steps": 1}

    def samples(self, scenario: Scenario) -> int:
        return self.batch or scenario.training.batch_size


def milestones(rounds: int) -> tuple[int, ...]:
    """Early, middle and late: the first, the middle and the last round."""
    return tuple(sorted({1, (rounds + 1) // 2, rounds}))


def cells(scenario: Scenario, rounds: Sequence[int]) -> list[Cell]:
    """Every round at every batch size: single samples first, then what clients really do.

    The first round comes first: an untrained model gives most away.
    """
    early, *others = sorted(rounds)
    own = scenario.training.local_steps == 1 and scenario.training.batch_size in BATCHES
    batches = [batch for batch in (1, None, 4, 8) if batch is not None or not own]
    numbers = [early, *reversed(others)]
    return [Cell(number, batch) for batch in batches for number in numbers]


def methods_on(scenario: Scenario, cell: Cell, own: Sequence[Attack] = ()) -> list[Method]:
    """The attacks of a cell, quick ones first: the thorough one on single samples only.

    Behind them come all whose row knows one of the scenario's plugins and which have something to
    do there. `own` are the rows of the scenario's [[attacks]]: they may name attacks that no
    catalogue has.
    """
    options = {attack.name: attack.options for attack in own}
    standard = STANDARD if cell.batch == 1 else STANDARD[:1]
    informed = [
        Method(name.replace(":", "."), name, options.get(name, {}))
        for name in informed_of(scenario, options)
        if why_not(name, scenario) is None
    ]
    return [*standard, *informed]
