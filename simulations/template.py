"""A scenario file to start from, with the meaning of every key beside it."""

from dataclasses import dataclass
from typing import Any

from fedpriv.describing import options_of
from fedpriv.scenario import from_tables, parsed_setting
from fedpriv.scenario.scenario import SECTIONS
from fedpriv.scenario.sections import Spec
from fedpriv.scenario.types import as_toml
from fedpriv.simulations.cards import card_of
from fedpriv.simulations.checks import check


@dataclass(frozen=True)
class Wishes:
    """What `fedpriv new` asks for."""

    name: str = "mine"
    data: str = "mnist-5k"
    model: str = "lenet"
    clients: int = 10
    rounds: int = 5
    plugins: tuple[Spec, ...] = ()
    attacks: tuple[Spec, ...] = ()


DEFAULTS = Wishes()
LR = 0.1  # of quickstart: with the default of 0.01 few rounds learn nothing
# Keys that a newcomer changes first; the others stand in the manual.
SHOWN = {
    "data": ("partition", "alpha", "limit"),
    "training": ("local-epochs", "local-steps", "batch-size"),
    "federation": ("fraction", "strategy", "backend", "device"),
}


def spec_of(text: str) -> Spec:
    """`dp:epsilon=8,delta=1e-5` as a part and its options."""
    name, _, options = text.partition(":")
    if "=" not in options:  # also pkg.module:Name
        return Spec(text)
    given: dict[str, Any] = {}
    for one in options.split(","):
        given |= parsed_setting(one)
    return Spec(name, given)


def written(wishes: Wishes) -> str:
    """The file's text. What it says was checked as `fedpriv check` does."""
    head: dict[str, dict[str, object]] = {
        "data": {"name": wishes.data},
        "training": {"lr": LR},
        "federation": {"clients": wishes.clients, "rounds": wishes.rounds},
    }
    lines = [f'name = "{wishes.name}"', "seed = 0"]
    for section, keys in SHOWN.items():
        known = {one.name: one for one in options_of(SECTIONS[section].of)}
        lines += ["", f"[{section}]"]
        for key, value in head.get(section, {}).items():
            lines += [f"# {known[key].meaning}", f"{key} = {as_toml(value)}"]
        for key in keys:
            one = known[key]
            shown = one.example if one.default is None else one.shown_default
            lines += [f"# {one.meaning}", f"# {key} = {shown}"]
        if section == "data":
            lines += ["", "[model]", f"name = {as_toml(wishes.model)}"]
    for kind, specs in (("plugins", wishes.plugins), ("attacks", wishes.attacks)):
        for spec in specs:
            lines += ["", f"[[{kind}]]", *part_lines(kind, spec)]
    lines += ["", "# Exit with 1 when an attack's PSNR is above this many dB.", "# [gate]"]
    lines += ["# psnr = 20", "", "# Every other key: docs/manual/scenario.md", ""]
    check(
        from_tables(
            head
            | {"name": wishes.name, "model": {"name": wishes.model}}
            | {"plugins": [one.plain() for one in wishes.plugins]}
            | {"attacks": [one.plain() for one in wishes.attacks]}
        )
    )
    return "\n".join(lines)


def part_lines(kind: str, spec: Spec) -> list[str]:
    """A part's name and options, and those it could have, as comments."""
    card = card_of(kind, spec.name)
    lines = [f"# {card.summary}", f"name = {as_toml(spec.name)}"]
    if kind == "attacks":
        lines += ['rounds = "last"', "# victims = 4"]
    lines += [f"{key} = {as_toml(value)}" for key, value in spec.options.items()]
    rest = [one for one in card.options if one.name not in spec.options]
    for one in rest:
        default = one.shown_default if one.default is not None else "…"
        lines.append(f"# {one.name} = {default}  # {one.meaning}")
    return lines
