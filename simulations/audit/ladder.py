"""Defences from mild to strong, tried on the cell that leaked worst.

Of those that pass, the cheapest is named.
"""

from dataclasses import dataclass
from typing import Any

from fedpriv.clients.catalogue import PLUGINS
from fedpriv.scenario import Scenario, from_tables

LADDER: tuple[tuple[str, tuple[dict[str, Any], ...]], ...] = (
    ("pruning-5", ({"name": "pruning", "fraction": 0.05},)),
    ("noise-0.01", ({"name": "noise", "scale": 0.01},)),
    ("spn-0.1", ({"name": "spn", "alpha2": 0.1},)),
    ("noise-0.1", ({"name": "noise", "scale": 0.1},)),
    ("dp-8", ({"name": "dp", "epsilon": 8.0},)),
)


@dataclass(frozen=True)
class Tried:
    """A defence: the worst leak it let through, in how many reconstructions, and its accuracy.

    `passes` None is undecided.
    """

    name: str
    plugins: str
    worst: float | None
    passes: bool | None
    accuracy: float | None = None
    attacked: int = 0
    why: str = ""


def candidates(scenario: Scenario) -> list[tuple[str, Scenario]]:
    """The scenario under each defence: its own [[defences]] when it names some, else the ladder."""
    tables = scenario.plain()
    rows = [
        (d.name, [dict(plugin) for plugin in d.plugins]) for d in scenario.defences if d.plugins
    ]
    if not rows:
        rows = [
            (name, [dict(plugin) for plugin in plugins])
            for name, plugins in LADDER
            if all(plugin["name"] in PLUGINS for plugin in plugins)
        ]
    return [(name, from_tables({**tables, "plugins": plugins})) for name, plugins in rows]


def cheapest(tried: list[Tried]) -> Tried | None:
    """Of those that pass, the one that keeps most accuracy; the mildest when none was trained."""
    passing = [one for one in tried if one.passes]
    measured = [one for one in passing if one.accuracy is not None]
    if measured:
        return max(measured, key=lambda one: one.accuracy or 0.0)
    return passing[0] if passing else None
