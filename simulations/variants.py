"""Variants: one scenario, several rows that differ in a few settings, one folder each."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedpriv.errors import BadScenario
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.scenario.binding import nearest

OWN = ("attacks", "cells", "checkpoint", "observations", "starts", "training", "truth", "victims")


def variants_of(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Name and scenario of each row; a scenario without variants is its only row, named ''."""
    if not scenario.variants:
        yield "", scenario
        return
    names = [variant.name for variant in scenario.variants]
    if len(set(names)) < len(names):
        raise BadScenario(f"[[variants]] must have different names, got {', '.join(names)}.")
    if taken := [name for name in names if name in OWN]:
        raise BadScenario(
            f"[[variants]] '{taken[0]}' is what a run folder calls a part of its own; choose "
            "another name."
        )
    plain = {key: value for key, value in scenario.plain().items() if key != "variants"}
    for variant in scenario.variants:
        tables = merged(plain, nested(variant.set))
        if variant.plugins is not None:
            tables["plugins"] = list(variant.plugins)
        yield variant.name, from_tables({**tables, "name": f"{scenario.name}-{variant.name}"})


def only(scenario: Scenario, name: str) -> Scenario:
    """One of the scenario's variants as a scenario of its own."""
    found = dict(variants_of(scenario)) if scenario.variants else {}
    if name not in found:
        raise BadScenario(
            f"Scenario '{scenario.name}' has no variant '{name}'.{nearest(name, found)} It has: "
            f"{', '.join(found) or 'none'}."
        )
    return found[name]


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`{"federation.rounds": 3}` as `{"federation": {"rounds": 3}}`."""
    result: dict[str, Any] = {}
    for key, value in settings.items():
        parsed = value
        for part in reversed(key.split(".")):
            parsed = {part: parsed}
        result = merged(result, parsed)
    return result
