"""Controls: the attacks of a cell on planted clients without the defence."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedpriv.errors import FedprivError
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.fairness import HOLDS, cells_of, unproven
from fedpriv.simulations.audit.probe import Found, Means
from fedpriv.simulations.audit.scored import scores_in
from fedpriv.simulations.audit.stage import exposed_cell
from fedpriv.simulations.audit.tasks import AttackTask
from fedpriv.simulations.judging.outcome import Word


def undefended(scenario: Scenario, cell: Cell) -> tuple[Scenario, Cell]:
    """The cell without plugins and secure aggregation.

    Where there are none, batches and steps are the only defence: then one step on one sample.
    """
    federation = replace(scenario.federation, secagg=False)
    plain = replace(scenario, plugins=(), federation=federation)
    return plain, (cell if plain != scenario else Cell(cell.round, 1))


def controlled(
    found: Found,
    scenario: Scenario,
    place: RunFolder,
    means: Means,
    words: Sequence[Word] = HOLDS,
) -> Found:
    """What was found, with controls of those cells where no attack beats a blind guess.

    `words` are those that need one.
    """
    rows = cells_of(found.rows)
    for cell, methods in found.methods.items():
        if not unproven(means.gates, rows.get(cell.name, []), words):
            continue
        plain, easier = undefended(scenario, cell)
        folder = place.below("controls", cell.name)
        try:
            probe = exposed_cell(plain, easier, folder, means)
        except FedprivError as error:
            found.lacks(cell, "control", str(error))
            continue
        path, count = Path(folder.path), len(probe.planted)
        tasks = [AttackTask(path, method, count) for method in methods]
        for method, done in zip(methods, means.carry(tasks, means.deadline), strict=True):
            if not isinstance(done, Exception) and not done.why:
                scores = scores_in(probe, method, method.label, means, set(probe.planted))
                found.controls += [{**row, "run": cell.name} for row in scores]
    return found
