"""Doubts: what keeps an audit that found no leak from saying that the federation holds."""

from collections.abc import Sequence
from typing import Any

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.catalogue import PLUGINS
from fedpriv.metrics.rates import at_least
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.strategies.catalogue import row_of as strategy_row


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


def of_knowledge(scenario: Scenario) -> list[str]:
    """Plugins that protect what is shared and that no attack of the catalogue knows."""
    reply = strategy_row(scenario).reply
    known = {plugin for name in ATTACKS for plugin in row_of(name).knows}
    return [
        f"no attack knows the plugin '{spec.name}'"
        for spec in scenario.plugins
        if spec.name not in known and reply in PLUGINS[spec.name].protects  # type: ignore[attr-defined]
    ]


def of_missing(missing: Sequence[dict[str, Any]], required: Sequence[str]) -> list[str]:
    """Attacks on required cells that failed, were cut short or were left out."""
    return [
        f"{one['attack']} in {one['cell']}: {one['why']}"
        for one in missing
        if one["cell"] in required
    ]
