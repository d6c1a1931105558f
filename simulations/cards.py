"""A part's card: what it is, what its row says of it, and each of its options."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fedpriv.describing import Option, options_of, vars_doc
from fedpriv.metrics.metric import Metric
from fedpriv.scenario.sections import Spec, spelled
from fedpriv.simulations.registries import registries

ABOUT_METRICS = ("of", "leaks", "unit", "said", "bound")
WORDS = {
    "sees": "what it looks at",
    "by": "who carries it out",
    "knows": "plugins that it knows of",
    "claims": "what it claims",
    "needs": "what it needs",
    "whole": "looks at all rounds and clients at once",
    "pools": "looks at all rounds of a client at once",
    "protects": "what it protects",
    "neutral": "no defence with",
    "strong": "strong with",
    "hides": "audits need an attack that knows it",
    "in_steps": "acts within single local steps",
    "baseline": "what the neutral setting equals",
    "reply": "what a client answers",
    "one_at_a_time": "one client at a time",
    "columns": "clients hold columns, not rows",
    "summable": "replies can be summed",
    "of": "what is compared",
    "leaks": "values that mean leakage",
    "unit": "unit",
    "said": "how people write it",
    "bound": "default bound",
}
# Where an option of each kind is typed in a scenario.
TYPED = {
    "plugins": "[[plugins]]",
    "attacks": "[[attacks]]",
    "strategies": "[strategy]",
    "malicious": "[malicious]",
    "models": "[model]",
    "data": "[data.options]",
    "metrics": "[gate]",
    "autoencoders": "[representation.options]",
}


@dataclass(frozen=True)
class Card:
    """All that is known of one part."""

    kind: str
    name: str
    summary: str
    paper: str
    about: str  # what its docstring says besides
    facts: Mapping[str, str]  # what its row says besides, in words
    options: tuple[Option, ...]


def card_of(kind: str, name: str) -> Card:
    """The card of the part called `name`, one of ours or `pkg.module:Name`."""
    registry = registries()[kind]
    row = registry[name]
    said = {f.name: getattr(row, f.name) for f in fields(registry.row)}
    if kind == "metrics":
        metric: Metric = registry.build(name)
        said |= {word: getattr(metric, word) for word in ABOUT_METRICS}
    facts = {
        WORDS.get(word, word): shown(value)
        for word, value in said.items()
        if word not in ("build", "summary", "paper") and shown(value)
    }
    options = tuple(options_of(row.build, registry.given))
    said_twice = about(row.build) == row.summary  # of somebody's own part: its docstring
    more = "" if said_twice else about(row.build)
    return Card(kind, name, row.summary, row.paper, more, facts, options)


def about(build: Any) -> str:
    """What a docstring says before its arguments, a line each paragraph."""
    while hasattr(build, "func"):
        build = build.func
    text = inspect.cleandoc(vars_doc(build)).partition("Args:\n")[0].strip()
    return "\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def shown(value: Any) -> str:
    """What a row says, in a cell."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(shown, value))
    if isinstance(value, Spec):
        return spelled(value)
    return "" if value is None else str(value)
