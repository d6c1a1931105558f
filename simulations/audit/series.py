"""Who was in, whose a sample is, what a client holds: attacks on all rounds of the training itself.

Such an attack is `whole`: it looks at every update and every public model of a run at once. So the
audit records its training, and no single round is exposed for it.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedpriv.errors import FedprivError
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.audit.battery import Method, built, distinct, on_series
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.probe import Found, Means
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.judge import judged

SHADOWS = "shadows"  # what attacks need that train federations of their own
PART = 0.3  # of the units that shadow federations may take, a sample of a batch for a step


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


def inferred_from(
    scenario: Scenario,
    folder: RunFolder,
    means: Means,
    units: int,
    rounds: int,
    shadows: bool = True,
) -> Found:
    """What attacks on all rounds say about the training in a folder.

    Without `shadows` those are left out that train federations of their own.
    """
    found, cell = Found(), Cell(0)
    methods = [
        method
        for method in wanted(scenario, means.own)
        if shadows or SHADOWS not in row_of(method.name).needs
    ]
    if not methods:
        return found
    able = []
    for method in methods:
        room = int(PART * units)
        if shadow_units(method, scenario, rounds) > room:
            found.lacks(cell, method.label, f"{room} units have no room for its shadows")
        else:
            able.append(method)
    attacks = [method.attack() for method in able]
    try:
        done = judged(
            folder,
            replace(scenario, attacks=tuple(attacks), keep_truth="numbers"),
            metrics=means.metrics,
            progress=means.in_time,
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
