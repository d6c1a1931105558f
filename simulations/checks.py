"""What can be known to be wrong before anything is started or written."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.catalogue import PLUGINS, check_plugins, plugin_of, plural
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.device import device_of
from fedpriv.errors import BadInput, BadOption, BadScenario
from fedpriv.evidence.claims import CLAIMS
from fedpriv.metrics.gates import Gate, gates_of
from fedpriv.registry import FOREIGN, said
from fedpriv.scenario import Scenario
from fedpriv.scenario.binding import bound, nearest
from fedpriv.scenario.built import dataset_of, model_of, shares_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.conditions import conditions_of, row_of, why_not
from fedpriv.simulations.judging.gate import check_gates
from fedpriv.simulations.judging.knowledge import check_curious
from fedpriv.strategies.catalogue import row_of as strategy_row
from fedpriv.strategies.catalogue import strategy_of
from fedpriv.strategies.malicious.catalogue import malicious_of
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.secagg import check_secagg


def problems(scenario: Scenario) -> dict[str, str]:
    """Everything that is wrong with a scenario, by what it is about; empty when nothing is.

    The pieces are those of `check`, each tried even where another one fails.
    """
    named = [attack.name for attack in scenario.attacks]
    pieces: dict[str, Callable[[], object]] = {
        "federation": lambda: check_federation(scenario),
        "gate": lambda: check_gates(gates_of(scenario.gate), scenario, named),
    }
    for attack in scenario.attacks:
        pieces[f"attack {attack.name}"] = partial(check_attacks, scenario, (attack,))
    if scenario.sweep is not None:
        from fedpriv.simulations.sweep.sweep import checked  # which imports this module

        pieces["sweep"] = lambda: checked(scenario, gates_of(scenario.gate))
    found: dict[str, str] = {}
    for about, piece in pieces.items():
        try:
            piece()
        except BadInput as error:
            if str(error) not in found.values():
                found[about] = str(error)
    return found


def check(scenario: Scenario, gates: Sequence[Gate] | None = None) -> None:
    """Build every part the scenario names once; the first that cannot be built raises."""
    check_federation(scenario)
    check_attacks(scenario, scenario.attacks)
    check_gates(
        gates_of(scenario.gate) if gates is None else gates,
        scenario,
        [attack.name for attack in scenario.attacks],
    )


def check_federation(scenario: Scenario) -> None:
    """The plugins, the strategy, the data and the model, and whether they can work together."""
    for spec in scenario.plugins:
        check_hooks(PLUGINS.build(spec.name, spec.options), spec.name)
    check_plugins(scenario.plugins, strategy_row(scenario).reply)
    check_secagg(scenario)
    roster = Roster(scenario.federation.clients)
    malicious_of(scenario, strategy_of(scenario, roster), roster)
    if scenario.data.partition == "vertical" and strategy_row(scenario).reply != "codes":
        raise BadScenario(
            "data.partition = 'vertical' divides columns, and strategy "
            f"'{scenario.federation.strategy}' shares {plural(strategy_row(scenario).reply)} of "
            "whole samples; choose another partition, or the strategy 'vertical'."
        )
    device_of(scenario.federation.device)
    shares_of(scenario)
    check_model(scenario)


def check_hooks(plugin: PrivacyPlugin, name: str) -> None:
    """Every hook that a plugin overrides takes what it will be called with."""
    for hook, base in inspect.getmembers(PrivacyPlugin, inspect.isfunction):
        own = getattr(type(plugin), hook)
        if own is base or hook.startswith("_"):
            continue
        wanted = list(inspect.signature(base).parameters)[1:]
        check_takes(getattr(plugin, hook), wanted, f"plugin '{name}': {hook}")


def check_takes(function: Any, wanted: Sequence[str], what: str) -> None:
    """BadOption unless a function can be called with so many arguments."""
    if not callable(function):
        raise BadOption(
            f"{what} must be callable with ({', '.join(wanted)}), got {function!r:.80}."
        )
    try:
        signature = inspect.signature(function)
        signature.bind(*wanted)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        raise BadOption(
            f"{what} must take ({', '.join(wanted)}), but takes {signature}: {error}."
        ) from error


def check_model(scenario: Scenario) -> None:
    """The model can be built, gives a number for every class, and suits the plugins.

    Where codes are shared, only the first is asked.
    """
    model, data = model_of(scenario), dataset_of(scenario)
    if strategy_row(scenario).reply == "codes":
        return
    try:
        with torch.no_grad():
            given = model.eval()(torch.zeros(2, *data.shape))
    except FOREIGN as error:
        raise BadOption(
            f"model '{scenario.model.name}' cannot take samples of '{data.name}', whose shape is "
            f"{tuple(data.shape)}: {said(error)}."
        ) from error
    shape = tuple(given.shape) if isinstance(given, torch.Tensor) else type(given).__name__
    if shape != (2, data.classes):
        raise BadOption(
            f"model '{scenario.model.name}' must give a number for each of {data.classes} classes: "
            f"for 2 samples it gives {shape}, not {(2, data.classes)}."
        )
    plugin_of(scenario.plugins).check(model_of(scenario))


def check_exposed(trained: Scenario, exposed: Scenario, attacks: Iterable[Attack]) -> None:
    """A cell of a sweep or an audit: the federation that is trained, and the exposed round."""
    if strategy_row(trained).reply == "nothing":
        raise BadScenario(
            f"Strategy '{trained.federation.strategy}' shares nothing: there is nothing to attack."
        )
    check_federation(trained)
    check_federation(exposed)
    check_attacks(exposed, attacks)


def check_attacks(scenario: Scenario, attacks: Iterable[Attack]) -> None:
    """Every attack can be built, sees what the strategy shares, and has a round to look at."""
    last, strategy = scenario.federation.rounds, scenario.federation.strategy
    reply = strategy_row(scenario).reply
    for attack in attacks:
        row = row_of(attack.name)
        if reply != "nothing" and row.sees not in (reply, "models"):
            raise BadScenario(
                f"[[attacks]] '{attack.name}' looks at {plural(row.sees)}, and strategy "
                f"'{strategy}' shares {plural(reply)}; choose from: {', '.join(fitting(reply))}."
            )
        if row.claims not in CLAIMS:
            raise BadScenario(
                f"[[attacks]] '{attack.name}' claims '{row.claims}', which nobody can judge; "
                f"choose from: {', '.join(name for name in CLAIMS if name)}."
            )
        check_kept(attack, scenario)
        check_options(attack)
        check_attribute(attack, scenario)
        if row.sees == "codes" and why_not(attack.name, scenario) is None:
            check_curious(scenario)
        beyond = [] if isinstance(attack.rounds, str) else [r for r in attack.rounds if r > last]
        wanted = any(attack.wants(server_round, last) for server_round in range(1, last + 1))
        if beyond or not wanted:
            raise BadScenario(
                f"[[attacks]] '{attack.name}' wants rounds {attack.rounds!r}, but the federation "
                f"has rounds 1 to {last}."
            )


def check_kept(attack: Attack, scenario: Scenario) -> None:
    """What clients keep is enough to judge what the attack claims."""
    if scenario.keep_truth == "numbers" and CLAIMS[row_of(attack.name).claims].asked == "message":
        raise BadScenario(
            f"keep-truth = 'numbers' keeps no samples, and [[attacks]] '{attack.name}' is judged "
            "by them; set keep-truth = true, or leave the attack out."
        )


def check_options(attack: Attack) -> None:
    """The options are known and fit; what conditions give is not needed yet."""
    row = row_of(attack.name)
    given = {name for condition in conditions_of(row) for name in condition.provides}
    if given:
        bound(row.build, attack.options, f"attack '{attack.name}'", given - attack.options.keys())
    else:
        method = ATTACKS.build(attack.name, attack.options)
        check_takes(method, ("evidence", "progress"), f"attack '{attack.name}'")


def check_attribute(attack: Attack, scenario: Scenario) -> None:
    """An attack that reads an attribute names one that the data has."""
    named = attack.options.get("attribute")
    if row_of(attack.name).claims != "attribute" or named is None:
        return
    known = ("label", *dataset_of(scenario).attributes)
    if named not in known:
        raise BadOption(
            f"attack '{attack.name}': the data '{scenario.data.name}' has no attribute '{named}'."
            f"{nearest(str(named), known)} Choose from: {', '.join(known)}."
        )


def fitting(reply: str) -> list[str]:
    return [name for name in ATTACKS if row_of(name).sees == reply]
