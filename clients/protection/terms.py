"""A client's own terms: what it answers, whatever a server's scenario says. The rest is refused.

Whoever submits a run writes its scenario, so the owner of a real client says in `terms.toml` in its
state folder what a server may ask for. Every key that is left out has the narrow default below.
Without a file, $FEDPRIV_TASK or `task` in the node configuration may name one data set: then the
client answers updates of that data set within the defaults, and nothing else.
"""

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from flwr.app import Context, MessageType

from fedpriv.clients.protection.folder import folder_of
from fedpriv.errors import BadInput, BadOption, BadScenario, Refused
from fedpriv.scenario import from_tables
from fedpriv.scenario.binding import bound, kebab
from fedpriv.scenario.sections import Spec, at_least
from fedpriv.wire import ALONE, CODES, COLUMNS, ENCODER, POOL

FILE = "terms.toml"
TASK, VARIABLE = "task", "FEDPRIV_TASK"  # in a node's own configuration, and its environment
TABLES = ("tasks", "plugins")  # keys that hold names with options
# What leaves a client in the answer to each kind of message; of its samples nothing, for "".
PRODUCTS = {
    MessageType.TRAIN: "update",
    ALONE: "update",
    MessageType.EVALUATE: "figures",
    ENCODER: "codes",
    CODES: "codes",
    COLUMNS: "codes",
    POOL: "",
}


def key(default: Any, why: str) -> Any:
    """A key of terms.toml: its default, and what the template and the docs say of it."""
    return field(default=default, metadata={"why": why})


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the owner of a client allows and insists on; the keys of terms.toml."""

    tasks: tuple[Spec, ...] = key(
        (), "data sets that may be used, by name, or as { name = …, option = … }"
    )
    messages: tuple[str, ...] = key(
        (MessageType.TRAIN,), f"kinds of message that are answered, of: {', '.join(PRODUCTS)}"
    )
    samples: tuple[int, int] = key(
        (50, 1_000_000), "fewest and most samples that one answer may come from"
    )
    splits: int = key(1, "how many ways to divide a data set are answered; two can be subtracted")
    batch_size: tuple[int, int] = key(
        (8, 4096), "smallest and largest batch; small ones are easy to reconstruct"
    )
    local_steps: int = key(10_000, "most training steps for one message; epochs count as steps")
    parameters: int = key(50_000_000, "most parameters of a model")
    releases_per_round: int = key(
        1, "how often one kind of message is answered in a round; noise averages out"
    )
    rounds_per_day: int = key(100, "how often one kind of message is answered in 24 hours")
    evaluation_noise: float = key(
        5.0,
        "noise on the figures of `evaluate`, in samples: standard deviation × count; beside dp, "
        "its own evaluation-noise decides",
    )
    tell_loss: bool = key(
        False, "true: the exact mean training loss leaves beside an update; no plugin protects it"
    )
    secagg: bool = key(False, "true: updates leave only as part of a sum")
    labels: tuple[str, ...] = key(("label",), "labels and attributes that codes may be shared for")
    layers: tuple[str, ...] = key(
        (), 'layers whose output may be shared as codes; "" is the last, "input" the sample itself'
    )
    code_size: int = key(64, "most values in the code of one sample")
    encoders: int = key(1, "how many encoders of a server samples are encoded with, ever")
    extra_plugins: tuple[str, ...] = key((), "plugins that a scenario may add to those below")
    imports: tuple[str, ...] = key((), "import paths `pkg.module:Name` that a scenario may name")
    keep_truth: bool = key(False, "true: write the samples it used to `truth` in the state folder")
    plugins: tuple[Spec, ...] = key(
        (), "always on, first in the chain; what one does not protect is refused"
    )

    def __post_init__(self) -> None:
        for name in ("samples", "batch_size"):
            value = getattr(self, name)
            if len(value) != 2 or not 1 <= value[0] <= value[1]:
                raise BadOption(f"'{kebab(name)}' must be [fewest, most], got {list(value)}.")
        for name in ("splits", "local_steps", "parameters", "releases_per_round", "code_size"):
            at_least(f"'{kebab(name)}'", getattr(self, name), 1)
        for name in ("rounds_per_day", "encoders", "evaluation_noise"):
            at_least(f"'{kebab(name)}'", getattr(self, name), 0)
        if math.isinf(self.evaluation_noise):
            raise BadOption("'evaluation-noise' must be finite.")
        for kind in self.messages:
            if kind not in PRODUCTS:
                raise BadOption(
                    f"'messages' knows no kind '{kind}'; choose from: {', '.join(PRODUCTS)}."
                )


def keys() -> list[Field[Any]]:
    """The keys of terms.toml in the order in which they are explained."""
    return list(fields(Terms))


def terms_of(context: Context) -> Terms:
    """The terms of a real client."""
    folder = folder_of(context)
    if folder is None:
        raise Refused(
            "This client has no state folder, so that nobody would count what leaves it; its "
            "owner must set FEDPRIV_STATE."
        )
    configured = context.node_config.get(TASK) or os.environ.get(VARIABLE)
    return terms_in(folder, str(configured) if configured else None)


def terms_in(folder: Path, task: str | None = None) -> Terms:
    """The terms in a client's state folder; `task` stands for a file that names no tasks."""
    path = folder / FILE
    try:
        tables = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
        tasks, plugins = (specs_in(tables.pop(name, [])) for name in TABLES)
        if task and not tasks:
            tasks = (Spec(task),)
        return Terms(
            tasks=tasks, plugins=plugins, **bound(Terms, tables, f"'{path}'", given=TABLES)
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, BadInput) as error:
        raise BadScenario(f"The client's terms '{path}' cannot be used: {error}") from error


def specs_in(rows: Any) -> tuple[Spec, ...]:
    """Names, or tables of a name and options, as they stand in a scenario's [[plugins]]."""
    return from_tables({"plugins": rows}).plugins


def as_data(spec: Spec) -> tuple[str, Mapping[str, Any]]:
    return spec.name, {kebab(name): value for name, value in spec.options.items()}
