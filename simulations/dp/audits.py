"""Canaries for a scenario: where they are put, and how whoever looks on scores them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadInput, BadOption
from fedpriv.evidence.observation import Observation
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.scenario.binding import kebab
from fedpriv.scenario.built import dataset_of, first_state, model_of
from fedpriv.simulations.dp import canaries, client_canaries, watching, worst_case
from fedpriv.simulations.dp.accounts import account_of, planned
from fedpriv.simulations.dp.by_step import Rounds
from fedpriv.simulations.dp.watching import BESIDE
from fedpriv.state import State, difference
from fedpriv.strategies.catalogue import STRATEGIES, row_of

ALONG, CHANGES = "updates, the canary's part", "updates, its changes over rounds"
RATIO = "updates, the canary's likelihood"
LOSS, ENTRY = "last model, loss of the canary", "last model, entry of the canary"
EVERY, LAST = "every model, along changing canaries", "last model, along the canary"
Scores = dict[str, tuple[np.ndarray, np.ndarray]]  # of canaries that are in, and of absent ones


@dataclass(frozen=True)
class Audit:
    """A scenario with canaries, and the scores that can be made of its run.

    `rounds` is what was seen in single rounds, where batches are drawn and canaries keep to theirs.
    """

    scenario: Scenario
    scored: Callable[[RunFolder, list[Observation]], Scores]
    rounds: Callable[[list[Observation]], Rounds] | None = None


def audit_of(plain: Scenario, count: int, kind: str, unit: str) -> Audit:
    """The audit of a scenario by so many canaries."""
    if row_of(plain).reply != "update":
        raise BadInput(
            f"Strategy '{plain.federation.strategy}' shares no updates; canaries need them."
        )
    if unit == "client":
        return _clients(plain, count)
    if kind == "gradient":
        return _entries(plain, count)
    return _samples(plain, count, kind)


def noiseless(scenario: Scenario) -> Scenario:
    """The same scenario without noise."""
    tables = scenario.plain()
    for plugin in tables.get("plugins", []):
        names = {kebab(key): key for key in plugin}
        if plugin["name"] == "dp" or "noise-multiplier" in names:
            for key in ("epsilon", "budget", "noise-multiplier"):
                plugin.pop(names.get(key, key), None)
            plugin["noise-multiplier"] = 0.0
    strategy = tables.get("strategy", {})
    build = STRATEGIES[scenario.federation.strategy].build
    if "noise_multiplier" in signature(build).parameters:
        kept = {k: v for k, v in strategy.items() if kebab(k) != "noise-multiplier"}
        tables["strategy"] = {**kept, "noise-multiplier": 0.0}
    return from_tables(tables)


def _recording(scenario: Scenario, changes: dict[str, Any], **which: int) -> Scenario:
    """The scenario with canaries in it; updates are recorded and none is attacked."""
    tables = scenario.plain() | changes
    tables |= {"name": f"verify-{scenario.name}", "keep-truth": False}
    tables["attacks"] = [{"name": "dlg", "rounds": "all", **which}]
    for unused in ("gate", "variants", "defences", "sweep", "malicious"):
        tables.pop(unused, None)
    return from_tables(merged(tables, {"federation": {"backend": "inline"}}))


def _steps(scenario: Scenario) -> watching.Steps:
    training = scenario.training
    account = account_of(scenario, planned(scenario, scenario.federation.rounds))
    return watching.Steps(
        clip=account.clip,
        noise=account.noise / account.clip * account.steps**0.5,
        count=account.steps,
        rate=account.rate,
        each=lambda number: training.lr_at(number) / training.batch_size,
    )


def _entries(plain: Scenario, count: int) -> Audit:
    """Canaries that are one entry of the model each, with a worst-case gradient."""
    training, clients, steps = plain.training, plain.federation.clients, _steps(plain)
    if training.optimiser != "sgd" or training.momentum or training.weight_decay:
        raise BadInput("Canaries of kind 'gradient' need SGD without momentum and decay.")
    own = {"count": count, "clients": clients, "draw": plain.seed, "max-grad-norm": steps.clip}
    plugins = [*plain.plain()["plugins"], {"name": f"{worst_case.HERE}:GradientCanaries", **own}]
    scenario = _recording(plain, {"plugins": plugins})

    def seen(updates: list[Observation]) -> tuple[worst_case.Entries, Tensor, float]:
        order = worst_case.quiet_first(scenario.text())
        drawn = worst_case.drawn_entries(order, count, clients, plain.seed)
        return drawn, *worst_case.by_round(updates, parameters(scenario), drawn, steps)

    def rounds(updates: list[Observation]) -> Rounds:
        drawn, table, _ = seen(updates)
        return Rounds(table.double().numpy(), drawn.inside.numpy(), steps.rate, steps.count)

    def scored(place: RunFolder, updates: list[Observation]) -> Scores:
        names = parameters(scenario)
        first, last, data = first_state(scenario), place.checkpoint_state(), dataset_of(plain)
        known = data.normalised(data.x_test[:BESIDE]), data.y_test[:BESIDE]
        rows = watching.learned(model_of(scenario), [first, last], *known)
        change = watching.unexplained(-flat(difference(last, first), names), rows)
        drawn, table, variance = seen(updates)
        along, changes, ratio = worst_case.scores(table, steps, variance)
        found = {ALONG: along, CHANGES: changes, RATIO: ratio, ENTRY: change[drawn.entry]}
        return split(found, drawn.inside)

    return Audit(scenario, scored, rounds if steps.rate < 1 else None)


def _samples(plain: Scenario, count: int, kind: str) -> Audit:
    """Canaries that are pictures: with a wrong label, or of noise."""
    if plain.data.limit is not None or plain.training.holdout:
        raise BadInput("Canaries cannot be told apart from others under data.limit or holdout.")
    steps, clients = _steps(plain), plain.federation.clients
    text = json.dumps(dict(plain.data.options), sort_keys=True)
    options = {"base": plain.data.name, "count": count, "kind": kind, "clients": clients}
    options |= {"draw": plain.seed, "options": text}
    data = {"name": f"{canaries.HERE}:with_canaries", "partition": "natural", "options": options}
    scenario = _recording(plain, {"data": data})

    def scored(place: RunFolder, updates: list[Observation]) -> Scores:
        base = canaries.base_of(plain.data.name, text, None)
        drawn = canaries.drawn_canaries(base, count, kind, clients, plain.seed)
        rest = canaries.untouched(base, count, plain.seed)[:BESIDE]
        beside = base.normalised(base.x_test[rest]), base.y_test[rest]
        model, x = model_of(scenario), base.normalised(drawn.x)
        own = x, drawn.y, drawn.owner
        along, changes = watching.from_updates(model, updates, own, beside, steps)
        first, last = first_state(scenario), place.checkpoint_state()
        loss = watching.from_model(model, first, last, x, drawn.y)
        return split({ALONG: along, CHANGES: changes, LOSS: loss}, drawn.inside)

    return Audit(scenario, scored)


def _clients(plain: Scenario, count: int) -> Audit:
    """Canary clients beside those of the scenario."""
    if not 4 <= count <= 10_000:
        raise BadOption(f"canaries must be between 4 and 10,000 clients, got {count}.")
    norm = {kebab(k): v for k, v in plain.strategy.items()}.get("clipping-norm", 1.0)
    first = plain.federation.clients
    own = {"first": first, "norm": float(norm), "draw": plain.seed}
    name = f"{client_canaries.HERE}:CanaryClients"
    tables = plain.plain()
    federation = {**tables["federation"], "clients": first + count}
    plugins = [*tables.get("plugins", []), {"name": name, **own}]
    scenario = _recording(plain, {"federation": federation, "plugins": plugins}, victims=1)

    def scored(place: RunFolder, updates: list[Observation]) -> Scores:
        names = parameters(scenario)
        sent = {int(seen.round): seen.sent for seen in updates}
        models = [flat(sent[number], names) for number in sorted(sent)]
        models.append(flat(place.checkpoint_state(), names))
        inside, outside = client_canaries.scored(models, count, plain.seed)
        return {
            EVERY: (inside["every"], outside["every"]),
            LAST: (inside["last"], outside["last"]),
        }

    return Audit(scenario, scored)


def parameters(scenario: Scenario) -> list[str]:
    return [name for name, _ in model_of(scenario).named_parameters()]


def flat(state: State, names: list[str]) -> Tensor:
    return torch.cat([state[name].flatten().float() for name in names])


def split(scores: dict[str, Tensor], inside: Tensor) -> Scores:
    return {k: (v[inside].double().numpy(), v[~inside].double().numpy()) for k, v in scores.items()}
