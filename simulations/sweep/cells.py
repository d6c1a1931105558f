"""The cells of a sweep: which federations are trained, which updates of them are attacked."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedpriv.errors import BadScenario
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.sections import Attack, Defence, Sweep
from fedpriv.simulations.federation.exposure import one_more_round
from fedpriv.simulations.judging.conditions import informed_of, row_of


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

    def about(self) -> dict[str, Any]:
        """What every row of its results begins with."""
        return {
            "defence": self.defence,
            "parameter": self.parameter,
            "value": self.value,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Cell:
    """One attack on the updates of one setting, with one batch size."""

    setting: Setting
    attack: Attack
    batch: int

    @property
    def name(self) -> str:
        return safe(f"{self.setting.name}-b{self.batch}-{self.attack.name}")

    @property
    def group(self) -> str:
        """The name of the exposed round that it shares with other attacks."""
        return f"{self.setting.name}-b{self.batch}"

    @property
    def knows(self) -> str:
        """The plugins that the attack is informed of; empty for one that is not.

        One that a defence calls informed knows all of its plugins, whatever its row says.
        """
        plugins = [spec.name for spec in self.setting.scenario.plugins]
        known = row_of(self.attack.name).known(plugins)
        if not known and self.attack.name in self.setting.informed:
            known = plugins
        return " + ".join(known)


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
    found = []
    for defence in scenario.defences:
        for value in defence.values or (None,):
            for seed in sweep.seeds:
                trained = trained_with(scenario, defence, value, seed)
                informed = defence.informed
                if informed is None:
                    informed = tuple(informed_of(trained))
                found.append(Setting(defence.name, defence.vary, value, seed, trained, informed))
    return found


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
    name, _, option = defence.vary.rpartition(".")
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


def start_of(scenario: Scenario, sweep: Sweep) -> int:
    """The round whose start is exposed: the one after the part `sweep.at` of the training."""
    return round(sweep.at * scenario.federation.rounds) + 1


def exposed_scenario(setting: Setting, sweep: Sweep, batch: int) -> Scenario:
    """One round in which every client shares the gradient of one batch. The truth is kept.

    Where more victims are asked for than clients trained, the data is split among as many clients
    as victims; those beyond the trained ones come without a state of their own.
    """
    plain = Scenario().plain()["training"]
    mode = sweep.mode or setting.scenario.training.mode
    return one_more_round(
        setting.scenario,
        name=f"{setting.scenario.name}-victims",
        server_round=1,
        training={**plain, "mode": mode, "lr": 1.0, "local-steps": 1, "batch-size": batch},
        attacks=[{"name": name, "victims": sweep.victims} for name in sweep.attacks],
        clients=max(setting.scenario.federation.clients, sweep.victims),
    )


def cells_of(scenario: Scenario) -> list[Cell]:
    """Every attack on every setting: the uninformed ones, and those that know the defence."""
    sweep = sweep_of(scenario)

    def attack(name: str) -> Attack:
        options: Mapping[str, Any] = sweep.options.get(name, {})
        return Attack(name=name, victims=sweep.victims, options=dict(options))

    return [
        Cell(setting, attack(name), batch)
        for setting in settings_of(scenario)
        for batch in sweep.batch_sizes
        for name in dict.fromkeys((*sweep.attacks, *setting.informed))
    ]


def training_key(setting: Setting) -> str:
    """What makes two trainings the same one."""
    return json.dumps(setting.scenario.plain(), sort_keys=True)
