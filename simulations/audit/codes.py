"""An audit of a federation that shares codes: it is run once, and its codes are read."""

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from fedpriv.errors import FedprivError
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.audit.battery import Method, distinct, fitting, informed, lacking
from fedpriv.simulations.audit.cells import (
    Cell,
)
from fedpriv.simulations.audit.fairness import unproven
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.conditions import row_of as row_of_attack
from fedpriv.simulations.judging.conditions import why_not
from fedpriv.simulations.judging.judge import judged


def on_codes(scenario: Scenario) -> list[Method]:
    """Every attack on codes that fits, those that know a plugin, and the scenario's own.

    Who reads an attribute reads each that the data have. What the scenario says of an attack is
    tried besides, and never instead of the catalogue's row.
    """
    known = [method.name for method in informed(scenario, scenario.attacks)]
    found = []
    for name in dict.fromkeys((*fitting(scenario), *known)):
        if row_of_attack(name).claims != "attribute":
            found.append(Method(name))
            continue
        found += [
            Method.with_options(name, {"attribute": key}) for key in dataset_of(scenario).attributes
        ]
    own = [Method.with_options(attack.name, attack.options) for attack in scenario.attacks]
    return distinct([*found, *own])


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
    control(work, chosen, methods, cell)


def control(work: Audit, chosen: Scenario, methods: Sequence[Method], cell: Cell) -> None:
    """The same attacks on codes without plugins, where none of them beats a blind guess.

    Without plugins there is nothing easier to attack, and the verdict says that nobody knows
    whether the attacks work.
    """
    if not chosen.plugins or not unproven(work.gates, work.own.rows) or not work.in_time():
        return
    plain = replace(chosen, plugins=())
    able = [method for method in methods if why_not(method.name, plain) is None]
    plain = replace(
        plain,
        attacks=tuple(method.attack() for method in able),
        federation=replace(plain.federation, backend="inline"),
    )
    place = work.folder.below("controls", cell.name)
    work.tell(f"a control: {len(able)} attacks on codes without plugins")
    try:
        simulate(
            plain,
            place,
            PlainLines(Console(quiet=True)),
            resume=place.rounds_file.exists(),  # of an audit that was cut short
            progress=work.told,
        )
        found = judged(
            place,
            plain,
            metrics=work.means.metrics,
            progress=lambda part, loss: work.in_time(),
        )
    except FedprivError as error:
        work.own.lacks(cell, "control", str(error))
        return
    run = work.folder.path.name
    work.own.controls = [{**row, "run": run} for row in found.rows if not row.get("partial")]
