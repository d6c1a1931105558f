"""`fedpriv attack`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedpriv.simulations.cli.tables import finite, scores_table

out, err = Console(), Console(stderr=True)


def attack(
    observations: Annotated[
        Path, typer.Argument(help="A run folder, or a folder that record_to wrote.")
    ],
    names: Annotated[
        list[str] | None, typer.Option("--attack", help="Which attack. Repeatable.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", help="Of the attacks: steps=100. Repeatable.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that clients train: pkg.module:Net.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A fact the recording lacks: lr=0.1. Repeatable."),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="What clients kept in an audit; without it, no scores.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where guesses go [default: beside them].")
    ] = None,
    victims: Annotated[int | None, typer.Option(help="At most so many of each round.")] = None,
    fail_if: Annotated[
        list[str] | None, typer.Option(help="Exit with 1 if any guess is worse: 'psnr>20'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Attack recorded observations of any Flower app."""
    from fedpriv.simulations.judging.attacking import attacked
    from fedpriv.simulations.judging.gate import check, gates_of
    from fedpriv.simulations.judging.recordings import attacks_named, opened

    gates = gates_of({}, fail_if or [])
    recording, place, kept = opened(observations, model, settings or [], truth)
    chosen = attacks_named(names or ["dlg"], options or [], victims)
    place = folder or place

    def tell(name: str, done: int, total: int) -> None:
        err.print(f"{name}: {done} of {total} victims", highlight=False)

    rows, failures = attacked(recording, chosen, place, kept, tell)
    for failure in failures:
        err.print(f"{failure.attack} failed: {failure.why}", highlight=False)
    if as_json:
        typer.echo(json.dumps(finite({"folder": str(place), "scores": rows})))
    elif rows:
        out.print(scores_table("what leaked", rows))
    if not as_json:
        out.print(f"guesses: {place / 'attacks'}", highlight=False, soft_wrap=True)
    if failures and len(failures) == len(chosen):
        from fedpriv.errors import WorkFailed

        raise WorkFailed(f"No attack succeeded: {failures[0].why}")
    check(gates, rows)
