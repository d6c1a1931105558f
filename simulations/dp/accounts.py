"""The account of a scenario: what its noise, sampling and steps add up to, of its smallest client.

A client of `dp` that declares no number of samples trains by a noised one, which nobody else knows.
So the ε of its settings is a span: from the lowest to the highest that this noise makes likely.
A run says how many clients answered in a round, and not which. Where some were missing, the span
begins at the ε of the largest client, with the fewest rounds that somebody must have taken part in.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.job import own_split
from fedpriv.clients.plugins.differential_privacy import DifferentialPrivacy, turns_of
from fedpriv.clients.protection.account import PublicCount
from fedpriv.errors import BadInput
from fedpriv.scenario import Scenario
from fedpriv.scenario.binding import kebab
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sections import Spec
from fedpriv.simulations.dp.accounting import Account, exact
from fedpriv.simulations.dp.findings import FALSE_REFUTATION

Record = Mapping[str, Any]  # a line of rounds.jsonl


def claimed_in(rounds: Iterable[Record]) -> float | None:
    """The largest ε of a sample that a client claimed in any round; None when nobody claims one.

    A line of `rounds.jsonl` has the largest of those who answered in that round.
    """
    return max((r["train-epsilon"] for r in rounds if "train-epsilon" in r), default=None)


def noisy_plugin(scenario: Scenario) -> Spec:
    """The plugin whose noise an ε of samples rests on: dp, or one with its options."""
    for spec in scenario.plugins:
        if spec.name == "dp" or "noise-multiplier" in map(kebab, spec.options):
            return spec
    raise BadInput(f"Scenario '{scenario.name}' has no plugin 'dp', so that no ε is claimed.")


@dataclass(frozen=True)
class Turns:
    """How often a client trained and evaluated.

    Where not all clients did the same, at least one did as much as this, and none did more than
    `most`.
    """

    trained: int
    evaluated: int
    most: "Turns | None" = None


def planned(scenario: Scenario, rounds: int) -> Turns:
    """What a client of a run of so many rounds can expect."""
    some = replace(scenario, federation=replace(scenario.federation, rounds=max(1, rounds)))
    spec = noisy_plugin(scenario)
    plugin = PLUGINS.build(spec.name, spec.options)
    own = plugin.evaluations(some) if isinstance(plugin, DifferentialPrivacy) else ()
    return Turns(turns_of(some), sum(count for _, _, count in own))


def turns_in(scenario: Scenario, rounds: Sequence[Record]) -> Turns:
    """What clients did in the rounds of a run."""
    expected, clients = planned(scenario, len(rounds)), scenario.federation.clients
    answers = [int(record.get("clients", clients)) for record in rounds]
    asked = [record for record in rounds if "client-loss" in record]
    good = [record for record in asked if not _missed_evaluation(record)]
    most = Turns(len(rounds), len(asked) if expected.evaluated else 0)
    if all(count == clients for count in answers) and len(good) == len(asked):
        return most
    least = max(1, math.ceil(sum(answers) / clients))
    return Turns(least, len(good) if expected.evaluated else 0, most)


def _missed_evaluation(record: Record) -> bool:
    return any(str(odd.get("why", "")).startswith("evaluation:") for odd in record.get("odd", ()))


def account_of(
    scenario: Scenario, turns: Turns, more: int = 0, *, largest: bool = False
) -> Account:
    """The account of the smallest or largest client, as if it admitted to `more` samples than it
    has.
    """
    spec = noisy_plugin(scenario)
    options = {kebab(key): value for key, value in spec.options.items()}
    clip = float(options.get("max-grad-norm", 1.0))
    plugin = PLUGINS.build(spec.name, spec.options)
    chosen = max if largest else min
    evaluations, evaluation_noise = 0, 1.0
    if isinstance(plugin, DifferentialPrivacy):
        holds = chosen(len(share) for share in shares_of(scenario))
        admits = plugin.samples or max(1, holds + more)
        plan = plugin.plan(scenario, PublicCount(admits, counted_apart(scenario)))
        noise, rate, steps = plan.noise, plan.rate, plan.steps
        if turns.evaluated and plugin.evaluation_noise:
            evaluations, evaluation_noise = turns.evaluated, plugin.evaluation_noise
    else:
        trains = chosen(trained_on(scenario))
        noise = float(options["noise-multiplier"])
        rate = min(1.0, scenario.training.batch_size / trains)
        steps = scenario.training.steps_for(trains)
    return Account(
        noise=noise * clip,
        clip=clip,
        rate=rate,
        steps=steps,
        rounds=turns.trained,
        delta=float(options.get("delta", 1e-5)),
        sampling="poisson",
        evaluations=evaluations,
        evaluation_noise=evaluation_noise,
    )


def trained_on(scenario: Scenario) -> list[int]:
    """How many samples each client trains on."""
    shares = (torch.from_numpy(share) for share in shares_of(scenario))
    return [len(own_split(scenario, share)[0]) for share in shares]


def counted_apart(scenario: Scenario) -> float:
    """The ε that a client spends on a noised number of its samples; 0 when it declares one."""
    spec = noisy_plugin(scenario)
    plugin = PLUGINS.build(spec.name, spec.options)
    if not isinstance(plugin, DifferentialPrivacy) or plugin.samples or not plugin.accounted:
        return 0.0
    return plugin.count_epsilon


def span_of(scenario: Scenario, turns: Turns) -> tuple[float, float]:
    """ε lies between these two (PLD), whatever number of samples the clients admit to.

    The number leaves its span with the chance of a false refutation. Noise that is calibrated to an
    ε follows the number, so that ε stays. The upper end adds what the number itself spends.
    """
    apart = counted_apart(scenario)
    follows = "epsilon" in map(kebab, noisy_plugin(scenario).options)
    off = math.ceil(math.log(2 / FALSE_REFUTATION) / apart) if apart and not follows else 0
    ends = [exact(account_of(scenario, turns.most or turns, more)) for more in {-off, 0, off}]
    high = max(high for _, high in ends) + apart
    if turns.most:  # the smallest client may have been away
        ends += [exact(account_of(scenario, turns, more, largest=True)) for more in {-off, 0, off}]
        ends += [exact(account_of(scenario, turns, more)) for more in {-off, 0, off}]
    return min(low for low, _ in ends), high
