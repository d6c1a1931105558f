"""Malicious servers: each of the catalogue sends its model once, and its attacks read the answers.

A server that changes the model also sets the configuration: clients take one step on a few samples.
It comes at the first round, where a guard has the least to compare with. What a scenario with a
guard, or with a malicious server of its own, lets through counts for its verdict.
"""

from collections.abc import Sequence
from dataclasses import replace

from fedpriv.clients.catalogue import hides
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Spec
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.stage import attacked
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.judging.deciding import decided
from fedpriv.strategies.malicious.catalogue import MALICIOUS

GUARD = "guard"  # the plugin that looks at models before a client trains on them
PART = 0.05  # of the units that malicious servers have
BATCH = 8  # samples of the one step that they ask for


def malicious_cells(scenario: Scenario) -> list[Cell]:
    """A cell for every malicious server of the catalogue, and the scenario's own."""
    steps = scenario.training.local_steps
    batch = None if steps == 1 else BATCH
    own = scenario.malicious.name if scenario.malicious else ""
    return [Cell(1, batch, name) for name in dict.fromkeys((*MALICIOUS, own)) if name]


def promised(scenario: Scenario) -> bool:
    """Whether the scenario itself is about malicious servers, so that its verdict is too."""
    guarded = any(not hides(spec.name) for spec in scenario.plugins)
    return scenario.malicious is not None or guarded


def servers(work: Audit) -> Found:
    """What each malicious server reads."""
    return served(work, work.scenario, work.folder.below("cells"))


def guarded(work: Audit) -> Found | None:
    """The same with a guard before everything else; None where nothing leaked or one is there."""
    leaks = any(one.word == "leaks" for one in decided(work.gates, work.malicious.rows))
    if not leaks or promised(work.scenario) or not work.in_time():
        return None
    plugins = (Spec(GUARD), *work.scenario.plugins)
    return served(
        work, replace(work.scenario, plugins=plugins), work.folder.below("defences", GUARD)
    )


def served(work: Audit, scenario: Scenario, place: RunFolder) -> Found:
    cells: Sequence[Cell] = malicious_cells(scenario)
    means = replace(work.means, own=())  # a scenario's own attacks are for honest rounds
    return attacked(scenario, cells, place, means, int(PART * work.units), enough=0)
