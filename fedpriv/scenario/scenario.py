"""Scenario: TOML tables in, one typed frozen object out, one line of text on the wire."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import tomli_w

from fedpriv.errors import BadInput, BadScenario
from fedpriv.scenario.binding import bound, is_finite, kebab, nearest
from fedpriv.scenario.sections import (
    Attack,
    Data,
    Defence,
    Federation,
    Inference,
    Malicious,
    Representation,
    Spec,
    Sweep,
    Training,
    Variant,
    named,
)

Table = dict[str, Any]
RENAMED = {"audit": "keep-truth"}  # keys of run folders written by earlier versions
# And keys that nobody read, with their defaults.
GONE: dict[str, Table] = {"representation": {"private": []}}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """All that a run is: the sections of the TOML file, key for key.

    Args:
        name: What run folders and pages call it. Example: `"mine"`.
        summary: What it is, in one line. Example: `"ten clients, dp"`.
        paper: Where it comes from. Example: `"SPN table 1"`.
        seed: The seed of everything that is drawn in a simulation. Example: `7`.
        keep_truth: Whether clients write the samples they used to their own disk. None: if there
            are attacks, which need the truth for their scores. "numbers": only which samples
            they are, which is all that questions about membership need. Example: `true`.
        data: Which data, from where, and who gets what.
        model: The model that clients train, by name, with its options.
        training: How a client trains in one round.
        federation: Who takes part, for how long, and on what.
        strategy: Options of the strategy that `federation.strategy` names.
        representation: Settings for a federation that shares codes instead of updates.
        plugins: The defences of the clients, in the order in which they act.
        attacks: The attacks on what was recorded.
        inference: What attacks on membership and owners are tried on.
        malicious: A server that changes what it sends.
        gate: The worst value allowed, by metric.
        variants: Rows of a comparison, each with the settings in which it differs.
        defences: The mechanisms that a sweep compares.
        sweep: The grid of a sweep.

    Example:
        >>> from fedpriv import Scenario
        >>> Scenario(name="mine", seed=7).federation.clients
        10
    """

    name: str = "unnamed"
    summary: str = ""
    paper: str = ""
    seed: int = 0
    keep_truth: bool | Literal["numbers"] | None = None  # None: if there are attacks
    data: Data = Data()
    model: Spec = Spec("lenet")
    training: Training = Training()
    federation: Federation = Federation()
    strategy: Mapping[str, Any] = field(default_factory=dict)  # options of federation.strategy
    representation: Representation | None = None  # codes are shared instead of updates
    plugins: tuple[Spec, ...] = ()  # the order is the order
    attacks: tuple[Attack, ...] = ()
    inference: Inference = Inference()
    malicious: Malicious | None = None
    gate: Mapping[str, float] = field(default_factory=dict)  # metric -> the worst allowed
    variants: tuple[Variant, ...] = ()
    defences: tuple[Defence, ...] = ()
    sweep: Sweep | None = None

    @property
    def keeps_truth(self) -> bool:
        """Whether clients keep the samples they used: as asked, or else if there are attacks."""
        return bool(self.attacks if self.keep_truth is None else self.keep_truth)

    def plain(self) -> Table:
        """The scenario as TOML-ready tables; defaults are written out."""
        return {key: value for key, value in _plain(self).items() if value not in ({}, [], None)}

    def toml(self) -> str:
        return tomli_w.dumps(self.plain())

    def text(self) -> str:
        """One line that `Scenario.of` reads back."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return json.dumps(self.plain(), sort_keys=True, separators=(",", ":"))

    @staticmethod
    def of(run_config: Mapping[str, Any]) -> "Scenario":
        """The scenario of a Flower run: a built-in name, a TOML file or the line of `text`."""
        return _of(str(run_config.get("scenario", "quickstart")), str(run_config.get("set", "")))


@lru_cache(maxsize=64)
def _of(text: str, overrides: str) -> Scenario:
    if text.startswith("{"):
        try:
            return from_tables(json.loads(text))
        except json.JSONDecodeError as error:
            raise BadScenario(f"The scenario's text is damaged: {error}.") from error
    from fedpriv.scenario.reading import read  # which builds scenarios

    return read(text, settings=[part.strip() for part in overrides.split(";") if part.strip()])


def from_tables(tables: Mapping[str, Any]) -> Scenario:
    """A checked Scenario from TOML tables."""
    takes = {kebab(f.name): f for f in fields(Scenario)}
    built: Table = {}
    for given, value in tables.items():
        key = RENAMED.get(given, given)
        if key not in takes:
            raise BadScenario(
                f"A scenario has no section '{key}'.{nearest(key, takes)} "
                f"It takes: {', '.join(takes)}."
            )
        try:
            built[takes[key].name] = _section(key, value)
        except BadInput as error:
            raise BadScenario(str(error)) from error
    try:
        plain = {kebab(key): built[key] for key in ("name", "seed", "keep_truth") if key in built}
        bound(Scenario, plain, "a scenario")
        named("a scenario's name", built.get("name", Scenario.name))
        if not -(2**63) <= built.get("seed", 0) < 2**63:
            raise BadScenario(f"'seed' must fit into 64 bits, got {built['seed']}.")
    except BadInput as error:
        raise BadScenario(str(error)) from error
    return Scenario(**built)


@dataclass(frozen=True)
class Section:
    """A section of a scenario file: its class, or an example where its keys are free."""

    of: Any = None
    many: bool = False  # [[section]], any number of them
    by_name: bool = False  # unknown keys are the options of the thing it names
    note: str = ""
    example: str = ""


BESIDE = "Options of the part that `name` names can stand beside these keys."
SECTIONS = {
    "data": Section(Data),
    "model": Section(
        note="Options of the model stand beside its name. Every model also takes `batchnorm`: "
        '"keep", or "group", which puts GroupNorm in the place of BatchNorm.',
        example='[model]\nname = "convnet"\nwidth = 32\nbatchnorm = "group"',
    ),
    "training": Section(Training),
    "federation": Section(Federation),
    "strategy": Section(
        note="The manual's page of strategies lists them.",
        example='[strategy]\nweighting = "plain"',
    ),
    "representation": Section(Representation),
    "plugins": Section(
        many=True,
        note="Options of a plugin stand beside its name. The plugins act in the order of the file.",
        example='[[plugins]]\nname = "pruning"\nfraction = 0.1',
    ),
    "attacks": Section(Attack, many=True, by_name=True, note=BESIDE),
    "inference": Section(Inference),
    "malicious": Section(Malicious, by_name=True, note=BESIDE),
    "gate": Section(
        note="A metric and the worst value that is allowed. A score beyond it ends the command "
        "with exit code 1. `--fail-if 'psnr>20'` does the same for one run.",
        example="[gate]\npsnr = 20",
    ),
    "variants": Section(Variant, many=True),
    "defences": Section(Defence, many=True),
    "sweep": Section(Sweep),
}


def _section(key: str, value: Any) -> Any:
    section = SECTIONS.get(key)
    title = f"[[{key}]]" if section and section.many else f"[{key}]"
    if key == "model":
        return _spec(value, title)
    if key == "plugins":
        return tuple(_spec(item, title) for item in _list(value, key))
    if key == "strategy":
        return dict(_table(value, title))
    if key == "gate":
        return _gate(_table(value, title))
    if isinstance(value, Mapping) and key in GONE:
        value = {k: v for k, v in value.items() if k not in GONE[key] or v != GONE[key][k]}
    if section is not None:
        made = _named if section.by_name else _bound
        if section.many:
            return tuple(made(section.of, item, title) for item in _list(value, key))
        return made(section.of, value, title)
    if key in ("summary", "paper") and not isinstance(value, str):
        raise BadScenario(f"'{key}' must be text, got {value!r}.")
    return value


def _gate(gate: Mapping[str, Any]) -> dict[str, float]:
    for metric, value in gate.items():
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not is_finite(value):
            raise BadScenario(f"[gate]: '{metric}' must be a finite number, got {value!r}.")
    return dict(gate)


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadScenario(f"{what} must be a table, got {value!r}.")
    return value


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise BadScenario(f"'{key}' must be a list of tables, [[{key}]], got {value!r}.")
    return list(value)


def _name(table: Mapping[str, Any], what: str) -> str:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise BadScenario(f"{what} needs a name, got {name!r}.")
    return name


def _spec(value: Any, what: str) -> Spec:
    table = _table({"name": value} if isinstance(value, str) else value, what)
    options = {key: item for key, item in table.items() if key != "name"}
    return Spec(_name(table, what), options)


def _bound(section: Any, value: Any, what: str) -> Any:
    return section(**bound(section, _table(value, what), what))


def _named(section: Any, value: Any, what: str) -> Any:
    """A section whose unknown keys are the options of the thing it names."""
    table = dict(_table(value, what))
    _name(table, what)
    takes = {kebab(f.name) for f in fields(section)} - {"options"}
    options = dict(_table(table.pop("options", {}), f"{what} options"))
    options |= {key: table.pop(key) for key in list(table) if key not in takes}
    return section(**bound(section, table, what), options=options)


def _plain(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.plain()
    if is_dataclass(value) and not isinstance(value, type):
        table = {kebab(f.name): _plain(getattr(value, f.name)) for f in fields(value)}
        optional = {kebab(f.name) for f in fields(value) if f.default_factory is not MISSING}
        return {k: v for k, v in table.items() if v is not None and not (k in optional and not v)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
