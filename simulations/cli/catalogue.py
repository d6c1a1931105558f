"""`fedpriv scenarios` and `fedpriv list`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedpriv.registry import Entry

out = Console()


class Kind(StrEnum):
    plugins = "plugins"
    attacks = "attacks"
    strategies = "strategies"
    models = "models"
    data = "data"
    metrics = "metrics"
    malicious = "malicious"


def scenarios() -> None:
    """The scenarios that ship with fedpriv."""
    from fedpriv.scenario import builtin, tables_of

    table = Table("name", "what it is", "paper", "profiles")
    for name in builtin():
        tables = tables_of(name)
        table.add_row(
            name,
            tables.get("summary", ""),
            tables.get("paper", ""),
            ", ".join(tables.get("profiles", {})),
        )
    out.print(table)


def listing(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """What there is of a kind, one line each, with the paper it comes from."""
    from fedpriv.attacks.catalogue import ATTACKS
    from fedpriv.catalogue import DATASETS, METRICS, MODELS
    from fedpriv.clients.catalogue import PLUGINS
    from fedpriv.strategies.catalogue import STRATEGIES
    from fedpriv.strategies.malicious.catalogue import MALICIOUS

    registries: dict[Kind, Mapping[str, Entry[Any]]] = {
        Kind.plugins: PLUGINS,
        Kind.attacks: ATTACKS,
        Kind.strategies: STRATEGIES,
        Kind.models: MODELS,
        Kind.data: DATASETS,
        Kind.metrics: METRICS,
        Kind.malicious: MALICIOUS,
    }
    table = Table("name", "what it is", "paper")
    for name, entry in registries[kind].items():
        table.add_row(name, entry.summary, entry.paper)
    out.print(table)
