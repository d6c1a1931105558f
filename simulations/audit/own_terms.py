"""What clients' terms stop of what a server could ask for, and what they leave; they cost nothing.

Terms that allow no batch below the configured one refuse every round of smaller batches, and none
of the federation's own. Whether they do is asked of the rule that real clients follow.
"""

from collections.abc import Sequence

from flwr.app import MessageType

from fedpriv.clients.protection.screening import check_training
from fedpriv.clients.protection.terms import Terms
from fedpriv.errors import Refused
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit.cells import Cell, cell_scenario
from fedpriv.simulations.audit.conclusion import bound
from fedpriv.simulations.judging.outcome import Outcome


def refuses(terms: Terms, scenario: Scenario) -> bool:
    """Whether a client with these terms answers no training round of the scenario."""
    try:
        check_training(terms, scenario, MessageType.TRAIN)
    except Refused:
        return True
    return False


def stopping(scenario: Scenario, cells: Sequence[Cell], held: Sequence[Outcome]) -> str:
    """The terms that stop all these rounds, their price, and what they leave; else nothing.

    `held` is what a server that sees one step of the configured batch was shown not to claim.
    """
    low, high = scenario.training.batch_size, Terms().batch_size[1]
    terms = Terms(batch_size=(low, max(low, high)))
    asked = [cell_scenario(scenario, cell) for cell in cells]
    if refuses(terms, scenario) or not all(refuses(terms, one) for one in asked):
        return ""
    text = (
        f" Terms with `batch-size = [{low}, {max(low, high)}]` refuse all of these rounds and none "
        "of the federation's, and cost nothing: the same accuracy, computing time and bytes."
    )
    return text + left(scenario, held)


def left(scenario: Scenario, held: Sequence[Outcome]) -> str:
    """What a server can still ask for beside such terms: one step of the configured batch."""
    if scenario.training.local_steps == 1:
        return " What is left is the federation's own round, of which the verdict speaks."
    still = f" What is left is one step on {scenario.training.batch_size} samples"
    known = [one for one in held if one.claim == "sample"]
    if not known:
        return f"{still}: what that leaks was not shown to hold."
    labels = "" if any(one.claim == "labels" for one in held) else "; its labels may be read"
    return f"{still}: {'; '.join(map(bound, known))}{labels}."
