"""`fedpriv scenarios` and `fedpriv list`: everything that can be named, one line each."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

out = Console()


def names_of(names: Iterable[str]) -> Column:
    """A column in which no name is wrapped or cut, however narrow the screen is."""
    return Column("name", no_wrap=True, min_width=max(map(len, names), default=4))


def scenarios() -> None:
    """The scenarios that ship with fedpriv."""
    from fedpriv.scenario import builtin, tables_of

    table = Table(names_of(builtin()), "what it is", "paper", "profiles")
    for name in builtin():
        tables = tables_of(name)
        table.add_row(
            name,
            tables.get("summary", ""),
            tables.get("paper", ""),
            ", ".join(tables.get("profiles", {})),
        )
    out.print(table)


def listing(
    kind: Annotated[
        str | None, typer.Argument(help="What to list, such as attacks. Default: the kinds.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(help="One part, by its name or pkg.module:Name.")
    ] = None,
) -> None:
    """What there is of a kind, one line each, with its paper; without a kind, what kinds exist."""
    from fedpriv.errors import BadOption
    from fedpriv.scenario.binding import nearest
    from fedpriv.simulations.registries import registries

    known = registries()
    if kind is None:
        kinds = Table("kind", "how many")
        for word, registry in known.items():
            kinds.add_row(word, str(len(registry)))
        out.print(kinds)
        return
    if kind not in known:
        raise BadOption(
            f"There is no list of '{kind}'.{nearest(kind, known)} Choose from: {', '.join(known)}."
        )
    registry = known[kind]
    rows = {name: registry[name]} if name else dict(registry.items())
    besides = [f.name for f in fields(registry.row) if f.name not in ("build", "summary", "paper")]
    table = Table(names_of(rows), "what it is", "paper", *besides)
    for own, entry in rows.items():
        said = (spelled(getattr(entry, field)) for field in besides)
        table.add_row(own, entry.summary, entry.paper, *said)
    out.print(table)


def spelled(value: Any) -> str:
    """What a row says, in a cell."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
