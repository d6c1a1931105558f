"""Defences from mild to strong: what each lets through, and what it costs."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from fedpriv.errors import FedprivError
from fedpriv.metrics.gates import Gate
from fedpriv.progress import Progress, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, merged
from fedpriv.scenario.sections import spelled
from fedpriv.simulations.audit import doubts as doubting
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.fairness import of_fairness
from fedpriv.simulations.audit.planted_series import of_controls
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.deciding import decided
from fedpriv.simulations.judging.outcome import Outcome, Word, overall
from fedpriv.tables import Row

Change = Mapping[str, Any]  # the tables in which a defended scenario differs

# Free ones first: they cost no accuracy by themselves, but change what a server sees.
LADDER: Sequence[tuple[str, Change]] = (
    ("larger-batches", {"training": {"batch-size": 4.0}}),
    ("more-steps", {"training": {"local-epochs": 2.0, "local-steps": 4.0}}),
    ("secagg", {"federation": {"secagg": True}}),
    ("pruning-5", {"plugins": [{"name": "pruning", "fraction": 0.05}]}),
    ("noise-0.01", {"plugins": [{"name": "noise", "scale": 0.01}]}),
    ("spn-0.1", {"plugins": [{"name": "spn", "alpha2": 0.1}]}),
    ("augment", {"plugins": [{"name": "augment", "policy": "4-5-24"}]}),
    ("noise-0.1", {"plugins": [{"name": "noise", "scale": 0.1}]}),
    ("clip-1", {"plugins": [{"name": "clip", "norm": 1.0}]}),
    ("dp-50", {"plugins": [{"name": "dp", "epsilon": 50.0}]}),
    ("dp-8", {"plugins": [{"name": "dp", "epsilon": 8.0}]}),
    ("dp-2", {"plugins": [{"name": "dp", "epsilon": 2.0}]}),
    ("dp-1", {"plugins": [{"name": "dp", "epsilon": 1.0}]}),
)


@dataclass(frozen=True)
class Candidate:
    """A defence: its name, the scenario that has it, and its settings in words."""

    name: str
    scenario: Scenario
    settings: str
    epsilon: float | None = None
    sets: tuple[str, ...] = ()  # the settings as --set takes them


@dataclass(frozen=True)
class Price:
    """What a defence costs: accuracy of each seed, and computing time and bytes against none.

    `low` and `high` are the exact 95 % interval of the mean accuracy, over the test samples.
    """

    accuracy: tuple[float, ...] = ()
    seconds: float | None = None
    bytes: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def mean(self) -> float | None:
        return sum(self.accuracy) / len(self.accuracy) if self.accuracy else None


@dataclass(frozen=True)
class Tried:
    """A defence and what became of it."""

    name: str
    settings: str
    word: Word
    outcomes: tuple[Outcome, ...] = ()
    price: Price = Price()
    epsilon: float | None = None
    why: str = ""
    sets: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "accuracy": self.price.mean}


def candidates(scenario: Scenario, cell: Cell) -> list[Candidate]:
    """The scenario under each defence: its own [[defences]] when it names some, else the ladder.

    A server that sets the configuration sets batches and steps too, so that they defend nothing in
    a cell that it asked for.
    """
    tables = scenario.plain()
    own: list[tuple[str, Change]] = [
        (d.name, {"plugins": [dict(plugin) for plugin in d.plugins]})
        for d in scenario.defences
        if d.plugins
    ]
    found = []
    for name, change in own or LADDER:
        if "training" in change:
            if not cell.configured:
                continue
            change = {"training": multiplied(scenario, dict(change["training"]))}
        try:
            defended = from_tables(
                {**tables, **change} if "plugins" in change else merged(tables, change)
            )
        except FedprivError:  # a plugin that this installation or this data cannot have
            continue
        if defended != scenario:
            found.append(
                Candidate(name, defended, said(change), epsilon_of(defended), sets_of(change))
            )
    return found


def multiplied(scenario: Scenario, factors: Mapping[str, float]) -> dict[str, int]:
    """Settings of [training] as multiples of what the scenario has."""
    training = scenario.training
    now = {"batch-size": training.batch_size}
    if training.local_steps is None:
        now["local-epochs"] = training.local_epochs
    else:  # they are instead of epochs
        now["local-steps"] = training.local_steps
    return {key: round(now[key] * factor) for key, factor in factors.items() if key in now}


def said(change: Change) -> str:
    """The settings of a defence as people type them."""
    parts = [
        f"{section}.{key}={value}"
        for section, table in change.items()
        if isinstance(table, Mapping)
        for key, value in table.items()
    ]
    plugins = from_tables({"plugins": change.get("plugins", [])}).plugins
    return " + ".join([*map(spelled, plugins), *parts])


def sets_of(change: Change) -> tuple[str, ...]:
    """The settings of a defence as `--set` takes them."""
    return tuple(
        f"{path}={toml_value(value)}"
        for section, table in change.items()
        for path, value in (
            [(f"{section}.{key}", one) for key, one in table.items()]
            if isinstance(table, Mapping)
            else [(section, table)]
        )
    )


def toml_value(value: Any) -> str:
    """A value as TOML writes it in a line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)


def epsilon_of(scenario: Scenario) -> float | None:
    """The ε that a scenario's plugins are asked to keep."""
    asked = [spec.options.get("epsilon") for spec in scenario.plugins]
    return next((float(value) for value in asked if isinstance(value, int | float)), None)


def judged_defence(
    candidate: Candidate,
    found: Found,
    gates: Sequence[Gate],
    own: Sequence[str] = (),
    series: Found | None = None,
    planted: Sequence[Row] = (),
) -> Tried:
    """What the scores of a defended cell decide; whatever is missing leaves it undecided.

    `own` are the attacks that the scenario names. `series` is what all rounds of the defended
    training say; without it only the exposed round is judged. `planted` are scores of a federation
    that was made to leak, which show who can act on all rounds.
    """
    rows = [*found.rows, *(series.rows if series else ())]
    known = tuple(decided(gates, rows))
    doubts = doubting.of_knowledge(candidate.scenario, own)
    missing = [*found.missing, *(series.missing if series else ())]
    doubts += [f"{one['attack']}: {one['why']}" for one in missing]
    doubts += doubting.of_scores(
        candidate.scenario, gates, rows, found.absent, own, series is not None
    )
    doubts += of_fairness(gates, found.rows, found.controls)
    if series and doubting.asks_series(gates):
        doubts += of_controls(series.rows, planted)
    word = overall(known, doubts)
    why = "; ".join([*doubts, *(one.why for one in known if one.word == "undecided")][:3])
    shown = "" if word == "leaks" else why
    return Tried(
        candidate.name,
        candidate.settings,
        word,
        known,
        epsilon=candidate.epsilon,
        why=shown,
        sets=candidate.sets,
    )


def trained(
    scenario: Scenario,
    place: RunFolder,
    rounds: int,
    going_on: Callable[[], bool],
    progress: Progress = go_on,
) -> tuple[float, float, float] | None:
    """Accuracy, computing seconds and bytes up after so many rounds; None when it did not end."""
    quiet = PlainLines(Console(quiet=True))
    started = time.process_time()
    tables = merged(scenario.plain(), {"federation": {"rounds": rounds, "backend": "inline"}})
    try:
        simulate(
            from_tables(tables),
            place,
            quiet,
            resume=place.rounds_file.exists(),  # of an audit that was cut short
            going_on=lambda record: going_on(),
            progress=progress,
        )
    except FedprivError:
        return None
    done = place.rounds()
    if len(done) < rounds:
        return None
    up = float(sum(record.get("bytes-up", 0) for record in done))
    return float(done[-1]["accuracy"]), time.process_time() - started, up


def cheapest(tried: Sequence[Tried]) -> Tried | None:
    """Of those that hold, the one that keeps most accuracy; the mildest when none was trained."""
    holding = [one for one in tried if one.word == "holds"]
    measured = [one for one in holding if one.price.mean is not None]
    if measured:
        return max(measured, key=lambda one: one.price.mean or 0.0)
    return holding[0] if holding else None


def curve(tried: Sequence[Tried]) -> list[dict[str, Any]]:
    """ε against leak and accuracy, the largest ε first; accuracy is of those that hold."""
    private = [one for one in tried if one.epsilon is not None]
    return [
        {
            "epsilon": one.epsilon,
            "outcome": one.word,
            "hits": max((each.hits for each in one.outcomes), default=0),
            "victims": max((each.victims for each in one.outcomes), default=0),
            "accuracy": one.price.mean,
        }
        for one in sorted(private, key=lambda one: -(one.epsilon or 0.0))
    ]


def largest_epsilon(tried: Sequence[Tried]) -> float | None:
    """The largest ε that was shown to hold."""
    found = [one.epsilon for one in tried if one.word == "holds" and one.epsilon is not None]
    return max(found, default=None)
