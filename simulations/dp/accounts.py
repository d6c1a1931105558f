"""The account of a scenario: what its noise, sampling and steps add up to, of its smallest client.

A client of `dp` that declares no number of samples trains by a noised one, which nobody else knows.
So the ε of its settings is a span: from the lowest to the highest that this noise makes likely.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
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


def claimed_in(rounds: Iterable[Mapping[str, Any]]) -> float | None:
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


def account_of(scenario: Scenario, rounds: int, more: int = 0) -> Account:
    """The account of the smallest client, as if it admitted to `more` samples than it has."""
    spec = noisy_plugin(scenario)
    options = {kebab(key): value for key, value in spec.options.items()}
    fewest = fewest_of(scenario)
    clip = float(options.get("max-grad-norm", 1.0))
    plugin = PLUGINS.build(spec.name, spec.options)
    if isinstance(plugin, DifferentialPrivacy):
        holds = min(len(share) for share in shares_of(scenario))
        admits = plugin.samples or max(1, holds + more)
        plan = plugin.plan(scenario, PublicCount(admits, counted_apart(scenario)))
        noise, rate, steps = plan.noise, plan.rate, plan.steps
    else:
        noise = float(options["noise-multiplier"])
        rate = min(1.0, scenario.training.batch_size / fewest)
        steps = scenario.training.steps_for(fewest)
    so_far = replace(scenario, federation=replace(scenario.federation, rounds=max(1, rounds)))
    return Account(
        noise=noise * clip,
        clip=clip,
        rate=rate,
        steps=steps,
        rounds=turns_of(so_far),
        delta=float(options.get("delta", 1e-5)),
        sampling="poisson",
    )


def fewest_of(scenario: Scenario) -> int:
    """How many samples the smallest client trains on."""
    shares = (torch.from_numpy(share) for share in shares_of(scenario))
    return min(len(own_split(scenario, share)[0]) for share in shares)


def counted_apart(scenario: Scenario) -> float:
    """The ε that a client spends on a noised number of its samples; 0 when it declares one."""
    spec = noisy_plugin(scenario)
    plugin = PLUGINS.build(spec.name, spec.options)
    if not isinstance(plugin, DifferentialPrivacy) or plugin.samples or not plugin.accounted:
        return 0.0
    return plugin.count_epsilon


def span_of(scenario: Scenario, rounds: int) -> tuple[float, float]:
    """ε lies between these two (PLD), whatever number of samples the clients admit to.

    The number leaves its span with the chance of a false refutation. Noise that is calibrated to an
    ε follows the number, so that ε stays. The upper end adds what the number itself spends.
    """
    apart = counted_apart(scenario)
    follows = "epsilon" in map(kebab, noisy_plugin(scenario).options)
    off = math.ceil(math.log(2 / FALSE_REFUTATION) / apart) if apart and not follows else 0
    ends = [exact(account_of(scenario, rounds, more)) for more in {-off, 0, off}]
    return min(low for low, _ in ends), max(high for _, high in ends) + apart
