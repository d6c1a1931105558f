"""Cells: the rounds that an audit exposes, as configured or with a batch that a server may ask."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedpriv.metrics.rates import LEVEL, SHARE, victims_for
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sections import Malicious
from fedpriv.simulations.federation.exposure import one_more_round
from fedpriv.simulations.judging.attacking import folder_name

BATCHES = (1, 4, 8)  # what a server could make clients do: one step on so many samples
PLANTED = 6  # samples of planted clients, at the least
SPARE = 5  # clients more: then 9 of 544 samples may be drawn, and none of 464 with 29
FEW = 4  # at most so many clients answer where each of them has samples enough


@dataclass(frozen=True)
class Cell:
    """One round at one batch size; without a batch the scenario's own training, all its steps.

    Round 0 stands for all rounds of the training together. `server` is the malicious server that
    sends the model; without one it is an honest one. With `told` the server is also told each
    client's model after its first step (`audit.told`).
    """

    round: int
    batch: int | None = None
    server: str = ""
    told: bool = False

    @property
    def configured(self) -> bool:
        return self.batch is None and not self.server and not self.told

    @property
    def name(self) -> str:
        if not self.round:
            return "all-rounds"
        by = f"-{folder_name(self.server)}" if self.server else "-told" * self.told
        return f"round-{self.round}-batch-{self.batch or 'own'}{by}"

    def training(self) -> dict[str, int]:
        """The settings in which this cell differs from the scenario's [training]."""
        if self.told:
            return {"local-steps": 1}
        return {} if self.batch is None else {"batch-size": self.batch, "local-steps": 1}

    def said(self, scenario: Scenario) -> str:
        """The batch as a table shows it."""
        if self.server:
            return f"{self.batch or scenario.training.batch_size}, {self.server}"
        if self.batch is not None:
            return str(self.batch)
        if self.told:
            return f"{scenario.training.batch_size}, told the first step"
        return f"{scenario.training.batch_size}, as configured"


def milestones(rounds: int) -> tuple[int, ...]:
    """Early, middle and late: the first, the middle and the last round."""
    return tuple(sorted({1, (rounds + 1) // 2, rounds}))


def configured_cells(rounds: Sequence[int]) -> list[Cell]:
    """What clients really do, in the first and the last of the rounds; then in those between."""
    first, last = min(rounds), max(rounds)
    between = [number for number in sorted(rounds) if number not in (first, last)]
    return [Cell(number) for number in dict.fromkeys((first, last, *between))]


def possible_cells(scenario: Scenario, rounds: Sequence[int]) -> list[Cell]:
    """What a server could make clients do that sets the configuration, while the model is new.

    A batch that is the configured one is not listed twice.
    """
    own = scenario.training.batch_size if scenario.training.local_steps == 1 else None
    return [Cell(min(rounds), batch) for batch in BATCHES if batch != own]


def together(scenario: Scenario) -> int:
    """How many clients' updates a server sees as one: all of a round behind secure aggregation."""
    federation = scenario.federation
    return max(2, int(federation.clients * federation.fraction)) if federation.secagg else 1


def in_message(scenario: Scenario, cell: Cell) -> int | None:
    """How many samples stand behind one message; None where a client takes all that it has."""
    steps = 1 if cell.told or cell.batch is not None else scenario.training.local_steps
    if steps is None:
        return None
    return steps * (cell.batch or scenario.training.batch_size) * together(scenario)


def needed_messages(scenario: Scenario, cell: Cell) -> int:
    """How many messages there must be for a bound: samples of one may leak together.

    With whole epochs a message has many samples, and only a few messages are attacked.
    """
    if in_message(scenario, cell) is not None:
        return victims_for(SHARE, LEVEL) + (SPARE if cell.told else 0)
    return min(FEW, max(1, scenario.federation.clients // together(scenario) - 1))


def planted_messages(scenario: Scenario, cell: Cell) -> int:
    """How many more messages are of clients that the attacker planted.

    It knows their samples, and none of them is counted.
    """
    samples = in_message(scenario, cell)
    return 1 if samples is None else math.ceil(PLANTED / samples)


def room_for(scenario: Scenario, cell: Cell) -> int:
    """How many clients the data have samples for: each as many as its steps take.

    With fewer its batches would be smaller than those of the federation.
    """
    samples = in_message(scenario, cell)
    if samples is None:
        return scenario.federation.clients
    held = [len(share) for share in shares_of(scenario)]
    each = min(samples // together(scenario), max(held))
    return max(scenario.federation.clients, sum(held) // max(1, each))


def cell_scenario(
    scenario: Scenario, cell: Cell, attacks: Sequence[Mapping[str, Any]] = ()
) -> Scenario:
    """The scenario of one cell: one more round, the truth kept, defences as strong as in training.

    Where a round asks for a few samples of each client, more clients of the same kind take part
    than the scenario has: one of three clients with one sample each would decide nothing. Behind
    secure aggregation there are several groups, each as large as the federation, and updates are
    put together afterwards (`judging.sums`).
    """
    many = together(scenario)
    needed = many * (needed_messages(scenario, cell) + planted_messages(scenario, cell))
    needed = max(many, min(needed, many * (room_for(scenario, cell) // many)))
    clients = max(scenario.federation.clients, needed) if many == 1 else needed
    found = one_more_round(
        replace(scenario, federation=replace(scenario.federation, secagg=False)),
        name=cell.name,
        server_round=cell.round,
        training=cell.training(),
        attacks=attacks or [{"name": "quick", "rounds": [cell.round]}],
        clients=clients,
        fraction=min(1.0, needed / clients),
    )
    if not cell.server:
        return found
    own = scenario.malicious
    options = own.options if own and own.name == cell.server else {}
    kept = {key: value for key, value in options.items() if key != "victims"}  # all are
    return replace(found, malicious=Malicious(name=cell.server, options=kept))


def summed_scenario(chosen: Scenario, many: int) -> Scenario:
    """The scenario of sums as one in which each of them is a client's update."""
    federation, training = chosen.federation, chosen.training
    return replace(
        chosen,
        federation=replace(federation, clients=federation.clients // many),
        training=replace(training, batch_size=training.batch_size * many),
    )
