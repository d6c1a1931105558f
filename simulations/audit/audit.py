"""`fedpriv audit`: train, attack what was configured, look for a defence, and say what holds.

First comes the federation as configured, early and late. Then, apart from it, what a server could
make clients do. Then defences. The verdict is about the configured federation.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from fedpriv.errors import BadOption
from fedpriv.lock import alone
from fedpriv.metrics.gates import gates_of
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.battery import fitting, informed
from fedpriv.simulations.audit.cells import (
    Cell,
    cell_scenario,
    possible_cells,
)
from fedpriv.simulations.audit.codes import of_codes, on_codes
from fedpriv.simulations.audit.ending import concluded
from fedpriv.simulations.audit.probe import Means
from fedpriv.simulations.audit.state import Audit, Clock
from fedpriv.simulations.audit.tasks import on_ray, one_by_one
from fedpriv.simulations.audit.updates import of_updates
from fedpriv.simulations.checks import check_federation
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.gpus import gpus_per_client
from fedpriv.simulations.federation.run import deliberate_threads
from fedpriv.simulations.judging.gate import check_gates, check_reachable
from fedpriv.strategies.catalogue import row_of

LONGEST = 100_000  # minutes, about ten weeks


@alone()
def audit(
    scenario: Scenario,
    folder: RunFolder,
    *,
    minutes: float | None = 10.0,
    work: int | None = None,
    fail_if: Iterable[str] = (),
    ray_address: str | None = None,
    insecure_ray: bool = False,
    workers: int = 1,
    resume: bool = False,
    named: str = "",
    console: Console | None = None,
    progress: Progress = go_on,
) -> dict[str, Any]:
    """Everything an audit found, also in `verdict.json`; its page is `report.html` in the folder.

    `work` are units instead of minutes: the same number repeats an audit exactly, however long it
    takes. With `workers` above 1, or a Ray cluster's address, attacks run side by side. When
    `progress` says stop, the audit ends as undecided, with what it has.
    """
    if minutes is not None and not 0 < minutes < LONGEST:
        raise BadOption(f"--minutes must be above 0 and below {LONGEST}, got {minutes}.")
    if work is not None and work < 1:
        raise BadOption(f"--work must be at least 1, got {work}.")
    deliberate_threads()
    gates = gates_of(scenario.gate, fail_if)
    check_federation(scenario)
    check_gates(gates, scenario, attacks_of(scenario))
    for gate in gates:
        check_reachable(gate, scenario)
    shown = console or Console(quiet=True)
    clock = Clock(None if work is not None else minutes)
    told = Told(progress)
    with many(scenario, ray_address, workers, insecure_ray, told) as carry:
        means = Means(
            Starts(folder.path / "starts"),
            carry,
            clock.deadline,
            scenario.attacks,
            tuple(gates),
            told,
        )
        plain = replace(
            scenario,
            attacks=(),
            keep_truth=False,
            gate={gate.metric: gate.bound for gate in gates},
            variants=(),
            sweep=None,
            federation=replace(scenario.federation, backend="inline"),
        )
        found = Audit(
            plain, folder, gates, clock, shown, means, told, max(1, workers), named or scenario.name
        )
        found.units = work or 0
        if row_of(scenario).reply == "update":
            of_updates(found, resume)
        else:
            of_codes(found, scenario, resume)
    return concluded(found)


@contextmanager
def many(
    scenario: Scenario, ray_address: str | None, workers: int, insecure: bool, told: Told
) -> Iterator[Callable[..., list[Any]]]:
    """How tasks are carried out: one after the other, or side by side on Ray."""
    if ray_address is None and workers <= 1:
        yield partial(one_by_one, told=told)
        return
    with cluster(ray_address, workers, insecure):
        yield partial(on_ray, told=told, gpus=gpus_per_client(scenario))


def attacks_of(scenario: Scenario) -> list[str]:
    """Every attack that an audit of this scenario may run."""
    if row_of(scenario).reply != "update":
        return [method.name for method in on_codes(scenario)]
    cells = [Cell(1), *possible_cells(scenario, (1,))]
    names = [name for cell in cells for name in fitting(cell_scenario(scenario, cell))]
    names += [method.name for method in informed(scenario, scenario.attacks)]
    return list(dict.fromkeys((*names, *(attack.name for attack in scenario.attacks))))
