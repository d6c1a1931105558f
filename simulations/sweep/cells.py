"""The cells of a sweep: which federations are trained, which updates of them are attacked."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.plugins.augmentation import Augmentation
from fedpriv.errors import BadScenario
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.sections import Defence, Sweep


@dataclass(frozen=True)
class Setting:
    """A defence with one value of its parameter, and one seed."""

    defence: str
    parameter: str
    value: Any
    seed: int
    scenario: Scenario  # the federation to train
    informed: tuple[str, ...]

    @property
    def name(self) -> str:
        shown = "" if self.value is None else f"-{self.value}"
        return safe(f"{self.defence}{shown}-s{self.seed}")


@dataclass(frozen=True)
class Cell:
    """One attack on the updates of one setting, with one batch size."""

    setting: Setting
    attack: str
    batch: int
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        return safe(f"{self.setting.name}-b{self.batch}-{self.attack}")

    @property
    def informed(self) -> bool:
        return self.attack in self.setting.informed


def safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+_-]+", "_", name)


def settings_of(scenario: Scenario) -> list[Setting]:
    """Every defence with every value and seed."""
    sweep = sweep_of(scenario)
    if not scenario.defences:
        raise BadScenario(f"Scenario '{scenario.name}' has no [[defences]] to sweep over.")
    names = [defence.name for defence in scenario.defences]
    if len(set(names)) < len(names):
        raise BadScenario(f"[[defences]] must have different names, got {', '.join(names)}.")
    return [
        Setting(
            defence=defence.name,
            parameter=defence.vary,
            value=value,
            seed=seed,
            scenario=trained_with(scenario, defence, value, seed),
            informed=defence.informed,
        )
        for defence in scenario.defences
        for value in (defence.values or (None,))
        for seed in sweep.seeds
    ]


def sweep_of(scenario: Scenario) -> Sweep:
    if scenario.sweep is None:
        raise BadScenario(
            f"Scenario '{scenario.name}' has no [sweep]; run it with `fedpriv run {scenario.name}`."
        )
    return scenario.sweep


def varied(defence: Defence, value: Any) -> list[dict[str, Any]]:
    """The defence's plugins with the value in its place, `plugin.option`."""
    plugins = [dict(plugin) for plugin in defence.plugins]
    if value is None:
        return plugins
    name, _, option = defence.vary.partition(".")
    for plugin in plugins:
        if plugin.get("name") == name and option:
            plugin[option] = value
            return plugins
    raise BadScenario(
        f"[[defences]] '{defence.name}': vary must be 'plugin.option' of one of its plugins, "
        f"got '{defence.vary}'."
    )


def trained_with(scenario: Scenario, defence: Defence, value: Any, seed: int) -> Scenario:
    """The federation of one setting; equal ones are the same whatever the defence is called."""
    tables = scenario.plain()
    for key in ("defences", "sweep", "attacks", "gate", "variants"):
        tables.pop(key, None)
    tables |= {"name": f"{scenario.name}-training", "seed": seed}
    tables["plugins"] = varied(defence, value)
    tables["federation"] = {**tables["federation"], "backend": "inline"}
    return from_tables(tables)


def victims_of(setting: Setting, sweep: Sweep, batch: int) -> Scenario:
    """One round in which every client shares the gradient of one batch, recorded and audited.

    Where more victims are asked for than clients trained, the data is split among as many clients as
    victims; those beyond the trained ones come without a state of their own.
    """
    tables = setting.scenario.plain()
    mode = sweep.mode or tables["training"]["mode"]
    tables["training"] = {"mode": mode, "lr": 1.0, "local-steps": 1, "batch-size": batch}
    tables["federation"] = {
        **tables["federation"],
        "strategy": "fedavg",
        "clients": max(setting.scenario.federation.clients, sweep.victims),
        "fraction": 1.0,
        "rounds": 1,
    }
    tables |= {"name": f"{setting.scenario.name}-victims", "keep-truth": True}
    tables["attacks"] = [{"name": name, "victims": sweep.victims} for name in sweep.attacks]
    return from_tables(tables)


def cells_of(scenario: Scenario) -> list[Cell]:
    """Every attack on every setting: the uninformed ones, and those that know the defence."""
    sweep = sweep_of(scenario)
    return [
        Cell(setting, attack, batch, _known(setting, attack) | dict(sweep.options.get(attack, {})))
        for setting in settings_of(scenario)
        for batch in sweep.batch_sizes
        for attack in dict.fromkeys((*sweep.attacks, *setting.informed))
    ]


def training_key(setting: Setting) -> str:
    """What makes two trainings the same one."""
    return json.dumps(setting.scenario.plain(), sort_keys=True)


def _known(setting: Setting, attack: str) -> dict[str, Any]:
    """Options that an attacker who knows the defence gives: the policy of `augment`."""
    if attack not in setting.informed or attack != "policy-aware":
        return {}
    for spec in setting.scenario.plugins:
        plugin = PLUGINS.build(spec.name, spec.options)
        if isinstance(plugin, Augmentation):
            return {"policy": str(plugin.chosen())}
    return {}
