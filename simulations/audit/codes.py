"""An audit of a federation that shares codes: it is run once, and its codes are read."""

from dataclasses import replace

from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.audit.battery import Method, fitting, informed, lacking
from fedpriv.simulations.audit.cells import (
    Cell,
)
from fedpriv.simulations.audit.stage import Found
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.conditions import row_of as row_of_attack
from fedpriv.simulations.judging.judge import judged


def on_codes(scenario: Scenario) -> list[Method]:
    """Every attack on codes that fits, those that know a plugin, and the scenario's own.

    Who reads an attribute reads each that the data have.
    """
    own = [Method(attack.name, attack.options) for attack in scenario.attacks]
    asked = {(method.name, method.options.get("attribute")) for method in own}
    found = []
    for name in dict.fromkeys((*fitting(scenario), *(one.name for one in informed(scenario)))):
        if row_of_attack(name).claims != "attribute":
            found += [] if name in {one for one, _ in asked} else [Method(name)]
            continue
        read = [key for key in dataset_of(scenario).attributes if (name, key) not in asked]
        found += [Method(name, {"attribute": key}) for key in read]
    return found + own


def of_codes(work: Audit, scenario: Scenario, resume: bool) -> None:
    """A federation that shares codes: it runs once, and every attack that fits reads its codes."""
    asked = {attack.name for attack in scenario.attacks}
    absent = {
        method.name: why
        for method in on_codes(scenario)
        if method.name not in asked and (why := lacking(method, scenario))
    }
    methods = [method for method in on_codes(scenario) if method.name not in absent]
    attacks = tuple(method.attack() for method in methods)
    chosen = replace(scenario, attacks=attacks, keep_truth=True, variants=(), sweep=None)
    work.tell(f"running {scenario.name}, then {len(methods)} attacks on its codes")
    simulate(
        replace(chosen, federation=replace(chosen.federation, backend="inline")),
        work.folder,
        PlainLines(work.console),
        resume=resume,
        progress=work.told,
    )
    work.rounds = work.folder.last_round()["round"]
    cell = Cell(work.rounds)
    found = judged(
        work.folder,
        chosen,
        metrics=work.means.metrics,
        progress=lambda part, loss: work.in_time(),
    )
    work.own = Found(rows=found.rows, absent=absent)
    work.own.attacks[cell.name] = [method.label for method in methods]
    for failure in found.failures:
        work.own.lacks(cell, failure.attack, failure.why)
    if found.partial:
        work.own.lacks(cell, "all", "cut short")
    work.findings = list(found.findings)
