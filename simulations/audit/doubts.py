"""Doubts: what keeps an audit that found no leak from saying that the federation holds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.catalogue import METRICS
from fedpriv.clients.catalogue import hides
from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import at_least
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.audit.battery import fitting, on_series
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.gate import comparable, counted
from fedpriv.simulations.judging.inferred import JUDGES
from fedpriv.simulations.judging.outcome import number_in
from fedpriv.tables import Row

FEW = 3  # names that are all said


def of_training(scenario: Scenario, rounds: Sequence[dict[str, Any]]) -> list[str]:
    """Training that did not end, and a model that has learned nothing."""
    wanted, found = scenario.federation.rounds, []
    if len(rounds) < wanted:
        found.append(f"training ended after {len(rounds)} of {wanted} rounds")
    if rounds and (chance := at_chance(scenario, float(rounds[-1]["accuracy"]))):
        found.append(chance)
    return found


def at_chance(scenario: Scenario, accuracy: float) -> str:
    """Why an accuracy cannot be told from always saying the most frequent class; else nothing."""
    labels = dataset_of(scenario).y_test
    often = float(labels.long().bincount().max()) / len(labels)
    if at_least(round(accuracy * len(labels)), len(labels)) > often:
        return ""
    return (
        f"the accuracy of {accuracy:.1%} is at chance ({often:.1%}): what an untrained federation "
        "leaks says little about a trained one"
    )


def of_knowledge(scenario: Scenario, own: Iterable[str] = ()) -> list[str]:
    """Plugins that change what is shared and that no attack knows.

    `own` are attacks that the scenario names, which may be of no catalogue.
    """
    known = {plugin for name in (*ATTACKS, *own) for plugin in row_of(name).knows}
    return [
        f"no attack knows the plugin '{spec.name}'"
        for spec in scenario.plugins
        if spec.name not in known and hides(spec.name)
    ]


def of_scores(
    scenario: Scenario,
    gates: Sequence[Gate],
    rows: Iterable[Row],
    absent: Mapping[str, str],
    own: Sequence[str] = (),
    trained: bool = True,
) -> list[str]:
    """Scores that are no number, and kinds of claim without a score where no gate says which.

    Without `trained` only single rounds are asked about, and not the training as a whole.
    """
    rows = list(rows)
    odd = of_numbers(gates, rows)
    whole = [method.name for method in on_series(scenario)] if trained else []
    names = (*fitting(scenario), *whole, *own)
    return odd if gates else [*odd, *of_kinds(scenario, names, rows, absent)]


def of_kinds(
    scenario: Scenario, attacks: Iterable[str], rows: Iterable[Row], absent: Mapping[str, str]
) -> list[str]:
    """Kinds of claim that attacks which fit here make, and about which nothing was scored.

    `absent` are attacks that lack something, such as public data, and why. A kind that no metric
    has a bound for decides nothing.
    """
    scores, found = counted(rows), []
    judged = {name: metric for name in METRICS if (metric := METRICS.build(name)).decides}
    kinds = {metric.of for metric in judged.values()} | set(JUDGES)
    for kind in sorted(comparable(scenario, attacks) & kinds):
        names = [name for name, metric in judged.items() if metric.of == kind]
        if any(number_in(row, name) is not None for row in scores for name in names):
            continue
        if any(row.get("claim") == kind for row in scores):
            continue
        why = "; ".join(f"{name}: {why}" for name, why in absent.items())
        found.append(f"nothing was scored about the {kind}" + (f" ({why})" if why else ""))
    return found


def asks_series(gates: Sequence[Gate]) -> bool:
    """Whether members, owners and class shares are asked about; gates may ask for others."""
    return not gates or any(METRICS.build(gate.metric).of in JUDGES for gate in gates)


def of_numbers(gates: Sequence[Gate], rows: Iterable[Row]) -> list[str]:
    """Scores that are no number: what made them may have hidden a leak."""
    scores, found = counted(rows), []
    names = [gate.metric for gate in gates] or [n for n in METRICS if METRICS.build(n).decides]
    for name in names:
        odd = sum(
            row.get(name) not in (None, "") and number_in(row, name) is None for row in scores
        )
        found += [f"{odd} scores of {name} are not a number"] if odd else []
    return found


def of_missing(missing: Sequence[dict[str, Any]]) -> list[str]:
    """Required attacks that failed, were cut short or were left out: one line for each reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in missing:
        groups.setdefault((str(one["cell"]), str(one["why"])), []).append(str(one["attack"]))
    return [f"{few(attacks)} in {cell}: {why}" for (cell, why), attacks in groups.items()]


def few(names: Sequence[str]) -> str:
    """Names in a row; where there are many, the first two and how many more."""
    if len(names) <= FEW:
        return ", ".join(names)
    return f"{', '.join(names[: FEW - 1])} and {len(names) - FEW + 1} more attacks"
