"""`fedpriv new`: a commented scenario file, from a few questions or from flags."""

from pathlib import Path
from typing import Annotated

import typer

from fedpriv.simulations.cli.terminal import err, out


def new(
    file: Annotated[
        Path, typer.Argument(help="The file to write. mine.toml makes a scenario named mine.")
    ],
    data: Annotated[
        str | None, typer.Option(help="The data set: a name of `fedpriv list data`.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model: a name of `fedpriv list models`.")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="How many clients take part.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds are trained.")] = None,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            help="A defence: a name of `fedpriv list plugins`, or 'dp:epsilon=8'. Repeatable."
        ),
    ] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="An attack: a name of `fedpriv list attacks`. Repeatable."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: what no flag says has its default.")
    ] = False,
) -> None:
    """Write a commented scenario to start from; asks what no flag says."""
    from fedpriv.errors import BadFolder
    from fedpriv.simulations.template import DEFAULTS, Wishes, spec_of, written

    if file.exists():
        raise BadFolder(f"'{file}' is there already; choose another name, or delete it.")
    if file.suffix != ".toml":
        raise BadFolder(f"A scenario's file ends in .toml, '{file}' does not.")

    def asked(question: str, default: str) -> str:
        return default if yes else str(typer.prompt(question, default, err=True))

    chosen = Wishes(
        name=file.stem,
        data=data or asked("Data set (fedpriv list data)", DEFAULTS.data),
        model=model or asked("Model (fedpriv list models)", DEFAULTS.model),
        clients=int(asked("Clients", str(DEFAULTS.clients))) if clients is None else clients,
        rounds=int(asked("Rounds", str(DEFAULTS.rounds))) if rounds is None else rounds,
        plugins=tuple(
            map(
                spec_of, plugin if plugin is not None else _list(asked("Defences, or none", "none"))
            )
        ),
        attacks=tuple(
            map(spec_of, attack if attack is not None else _list(asked("Attacks", "quick")))
        ),
    )
    text = written(chosen)
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise BadFolder(f"'{file}' cannot be written: {error.strerror}.") from error
    out.print(f"written: {file}", highlight=False)
    err.print(f"next: fedpriv check {file}, then fedpriv run {file}", highlight=False)


def _list(words: str) -> list[str]:
    return [] if words == "none" else words.replace(",", " ").split()
