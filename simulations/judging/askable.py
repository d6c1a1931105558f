"""Whether a training set can be asked about: findings on candidates and on the model."""

from collections.abc import Sequence

from fedpriv.errors import BadInput
from fedpriv.metrics.membership import STRICT, USUAL
from fedpriv.metrics.rates import at_least
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.findings import Finding
from fedpriv.simulations.judging.held import TruthOf, make_candidates

CONVERGED = 0.99  # accuracy on held-out samples above which members hardly stand out


def asks(attacks: Sequence[Attack]) -> bool:
    """Whether one of the attacks is about candidates."""
    return any("candidates" in row_of(attack.name).needs for attack in attacks)


def in_the_way(folder: RunFolder, scenario: Scenario, truth_of: TruthOf) -> list[Finding]:
    """What stands in the way of questions about who was in a training set."""
    try:
        make_candidates(folder, scenario, truth_of)
    except BadInput as error:
        return [finding("no candidates", "fatal", str(error))]
    key = folder.key()
    found = [] if key is None else of_counts(int(key.member.sum()), int((~key.member).sum()))
    rounds = folder.rounds()
    return found + (of_model(scenario, float(rounds[-1]["accuracy"])) if rounds else [])


def of_counts(members: int, others: int) -> list[Finding]:
    """Too few held-out samples for the false-positive rates that are reported."""
    for rate, severity in ((USUAL, "warning"), (STRICT, "note")):
        if others < 1 / rate:
            detail = (
                f"Attacks are asked about {members} members and {others} samples that nobody "
                f"trained on (held out). How many members are found while at most {rate:.1%} of "
                f"the others are accused (a false-positive rate of {rate:.1%}) can only be said "
                f"with {round(1 / rate)} others or more. Train more (training.local-steps, "
                "federation.rounds), or raise inference.candidates and data.reserve."
            )
            return [finding("few candidates", severity, detail)]
    return []


def of_model(scenario: Scenario, accuracy: float) -> list[Finding]:
    """A model that has learned nothing, or that knows held-out samples as well as members."""
    labels = dataset_of(scenario).y_test
    often = float(labels.long().bincount().max()) / len(labels)
    if at_least(round(accuracy * len(labels)), len(labels)) <= often:
        detail = (
            f"The last model's accuracy of {accuracy:.1%} is at chance ({often:.1%}). An untrained "
            "model remembers nobody: low figures say nothing about a trained one."
        )
        return [finding("untrained model", "warning", detail)]
    if accuracy >= CONVERGED:
        detail = (
            f"The last model is right about {accuracy:.1%} of held-out samples. Members hardly "
            "stand out from them in the last model; updates of earlier rounds may show more."
        )
        return [finding("converged model", "note", detail)]
    return []


def finding(cause: str, severity: str, detail: str) -> Finding:
    return {"cause": cause, "severity": severity, "detail": detail, "evidence": []}
