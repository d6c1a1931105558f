"""`fedpriv scenarios` and `fedpriv list`: all that can be named, one line each, or a card."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from fedpriv.simulations.cli.terminal import out

if TYPE_CHECKING:
    from fedpriv.simulations.cards import Card


WIDE = 56  # characters of a cell that has sentences; a pipe would show it as one long line


def told(word: str, width: int = WIDE) -> Column:
    """A column of words, which wraps also where nobody reads on a screen."""
    return Column(word, max_width=width, overflow="fold")


def names_of(names: Iterable[str]) -> Column:
    """A column in which no name is wrapped or cut, however narrow the screen is."""
    return Column("name", no_wrap=True, min_width=max(map(len, names), default=4))


def scenarios() -> None:
    """The scenarios that ship with fedpriv."""
    from fedpriv.scenario import builtin, tables_of

    table = Table(names_of(builtin()), told("what it is"), told("paper", 24), "profiles")
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
        str | None, typer.Argument(help="One part, by its name or pkg.module:Name: its card.")
    ] = None,
) -> None:
    """What there is of a kind, one line each; of one part, its card with every option."""
    from fedpriv.errors import BadOption
    from fedpriv.scenario.binding import nearest
    from fedpriv.simulations.cards import card_of, shown
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
    if name is not None:
        print_card(card_of(kind, name))
        return
    rows = dict(known[kind].items())
    besides = [f.name for f in fields(known[kind].row) if f.name not in ("build", "summary")]
    said = {own: [shown(getattr(row, field)) for field in besides] for own, row in rows.items()}
    filled = [
        place for place in range(len(besides)) if any(cells[place] for cells in said.values())
    ]
    others = (told(spaced(besides[place]), 24) for place in filled)
    table = Table(names_of(rows), told("what it is"), *others)
    for own, row in rows.items():
        table.add_row(own, row.summary, *(said[own][place] for place in filled))
    out.print(table)
    out.print(f"One of them with its options: fedpriv list {kind} {next(iter(rows))}", style="dim")


def spaced(word: str) -> str:
    return word.replace("_", " ")


def print_card(card: "Card") -> None:
    """What a part is, what its row says of it, and a table of its options."""
    paper = f" ({card.paper})" if card.paper else ""
    out.print(Text.assemble((card.name, "bold"), f": {card.summary}{paper}"))
    if card.about:
        out.print(Text(card.about))
    for word, value in card.facts.items():
        out.print(Text(f"{word}: {value}"))
    if not card.options:
        out.print("It takes no options.")
        return
    names = names_of([one.name for one in card.options])
    table = Table(names, told("default", 24), told("type", 24), told("what it means"))
    for one in card.options:
        meaning = f"{one.meaning} ({one.unit})" if one.unit else one.meaning
        table.add_row(*(Text(cell) for cell in (one.name, one.shown_default, one.type, meaning)))
    out.print(table)
