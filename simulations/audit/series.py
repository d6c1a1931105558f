"""Who was in, whose a sample is, what a client holds: attacks on all rounds of the training itself.

Such an attack is `whole`: it looks at every update and every public model of a run at once. So the
audit records its training, and no single round is exposed for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedpriv.errors import BadInput, FedprivError
from fedpriv.progress import Progress
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.audit.battery import Method, built, distinct, on_series
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.held import outsiders
from fedpriv.simulations.judging.judge import judged

SHADOWS = "shadows"  # what attacks need that train federations of their own
PART = 0.3  # of the units that shadow federations may take, a sample of a batch for a step
ASKING = 0.05  # of the units that candidates may take, one for a candidate in a round
MEMBERS = 4000  # at most so many members are asked about


def recorded(scenario: Scenario, own: Sequence[Attack] = ()) -> Scenario:
    """The scenario with its rounds recorded where an attack wants to see all of them.

    Clients keep which samples they used, and not the samples.
    """
    attacks = tuple(method.attack() for method in wanted(scenario, own))
    return replace(scenario, attacks=attacks, keep_truth="numbers") if attacks else scenario


def wanted(scenario: Scenario, own: Sequence[Attack] = ()) -> list[Method]:
    """Every attack on the whole series that fits, and those of the scenario's own."""
    named = [attack for attack in own if row_of(attack.name).whole]
    asked = [Method.with_options(attack.name, attack.options) for attack in named]
    return distinct([*on_series(scenario), *asked])


def asking(scenario: Scenario, units: int, rounds: int) -> Scenario:
    """The scenario with as many members asked about as there are, and as the units have room for.

    A share of 5 % that is allowed is not told from one of 6 % by a few hundred.
    """
    room = int(ASKING * units / max(1, rounds))
    members = min(MEMBERS, room, sum(map(len, shares_of(scenario))))
    asked = scenario.inference
    if members <= len(outsiders(scenario)[0]) or asked.members is not None:
        return scenario  # each has a held-out sample of its own
    return replace(scenario, inference=replace(asked, members=members))


@dataclass(frozen=True)
class SeriesTask:
    """Attacks on all rounds of the training in a folder, and what they say about it.

    Without `shadows` those are left out that train federations of their own.
    """

    scenario: Scenario
    place: Path
    own: tuple[Attack, ...]  # the rows of the scenario's [[attacks]]
    metrics: tuple[str, ...]
    units: int
    rounds: int
    shadows: bool = True

    def __call__(self, progress: Progress) -> Found:
        found, cell = Found(), Cell(0)
        scenario = asking(self.scenario, self.units, self.rounds)
        methods = [
            method
            for method in wanted(scenario, self.own)
            if self.shadows or SHADOWS not in row_of(method.name).needs
        ]
        if not methods:
            return found
        able = []
        for method in methods:
            room = int(PART * self.units)
            try:
                takes = shadow_units(method, scenario, self.rounds)
            except BadInput as error:  # too few samples of the attacker's own to train shadows on
                found.refused[method.label] = str(error)
                continue
            if takes > room:
                found.lacks(cell, method.label, f"{room} units have no room for its shadows")
            else:
                able.append(method)
        attacks = tuple(method.attack() for method in able)
        try:
            done = judged(
                RunFolder(self.place),
                replace(scenario, attacks=attacks, keep_truth="numbers"),
                metrics=self.metrics,
                progress=progress,
            )
        except FedprivError as error:
            found.lacks(cell, "all", str(error))
            return found
        for failure in done.failures:
            if failure.refused:
                found.refused[failure.attack] = failure.why
            else:
                found.lacks(cell, failure.attack, failure.why)
        if done.partial:
            found.lacks(cell, "all", "cut short")
        found.rows = [{**row, "run": cell.name, "batch": cell.said(scenario)} for row in done.rows]
        found.attacks[cell.name] = [method.label for method in able]
        return found


def shadow_units(method: Method, scenario: Scenario, rounds: int) -> int:
    """What an attack's shadow federations take: so many trainings like the federation's."""
    if SHADOWS not in row_of(method.name).needs:
        return 0
    training, shares = scenario.training, shares_of(scenario)
    samples = sum(training.steps_for(len(one)) * training.batch_size for one in shares)
    count = getattr(built(method, scenario), "count", 1)
    return int(count * rounds * scenario.federation.fraction * samples)
