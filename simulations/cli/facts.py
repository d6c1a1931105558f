"""`fedpriv facts`: what is known, guessed and unknown of recorded updates."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedpriv.simulations.cli.options import AsJson

out = Console()


def facts(
    observations: Annotated[
        Path, typer.Argument(help="A run folder, or a folder that record_to wrote.")
    ],
    as_json: AsJson = False,
) -> None:
    """List what is known, guessed and unknown of recorded updates, and the option for each."""
    from fedpriv.simulations.judging.telling import facts_of_all, updates_in

    rows = facts_of_all(updates_in(observations))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("fact", "state", "value", "to set it when attacking")
    for row in rows:
        table.add_row(row["fact"], row["state"], row["value"], row["set"])
    out.print(table)
