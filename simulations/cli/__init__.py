"""The `fedpriv` command: one file per command, no logic here."""

import inspect
import logging
import os
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from fedpriv.errors import FedprivError
from fedpriv.progress import TOLD
from fedpriv.simulations.cli.terminal import err

app = typer.Typer(
    name="fedpriv",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # in Rich's own markup [sweep] would be a style
)

LONG = ("run", "audit", "attack", "search", "sweep", "reproduce", "verify-dp")  # they may start Ray


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedpriv {version('fedpriv')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Find out how much private data leaks from what a federation shares."""


@cache
def register() -> None:
    """Add every command, once: what is added twice makes each later start slower."""
    from fedpriv.simulations.cli import (
        attack,
        audit,
        catalogue,
        check,
        deploy,
        export,
        facts,
        new,
        pareto,
        preflight,
        report,
        reproduce,
        run,
        search,
        sweep,
        tsne,
        verify_dp,
        watch,
    )
    from fedpriv.simulations.cli.guarded import guarded

    app.command("new")(guarded(new.new))
    app.command("check")(guarded(check.check))
    app.command("run")(guarded(run.run))
    app.command("audit")(guarded(audit.audit))
    app.command("attack")(guarded(attack.attack))
    app.command("preflight")(guarded(preflight.preflight))
    app.command("facts")(guarded(facts.facts))
    app.command("search")(guarded(search.search))
    app.command("sweep")(guarded(sweep.sweep))
    app.command("reproduce")(guarded(reproduce.reproduce))
    app.command("pareto")(guarded(pareto.pareto))
    app.command("tsne")(guarded(tsne.tsne))
    app.command("report")(guarded(report.report))
    app.command("watch")(guarded(watch.watch))
    app.command("export")(guarded(export.export))
    app.command("scenarios")(guarded(catalogue.scenarios))
    app.command("list")(guarded(catalogue.listing))
    app.add_typer(deploy.app, name="deploy")
    app.add_typer(verify_dp.app, name="verify-dp")


@cache
def command() -> Any:
    """The whole command, with what is said of every argument."""
    register()
    found = typer.main.get_command(app)
    waiting = [found]
    while waiting:
        one = waiting.pop()
        waiting += getattr(one, "commands", {}).values()
        for parameter in one.params:
            if not getattr(parameter, "help", None):
                parameter.help = _said(parameter, one)
    return found


def _said(parameter: Any, one: Any) -> str | None:
    """What Typer was told of an argument, which click 8.5 drops."""
    annotations = inspect.get_annotations(inspect.unwrap(one.callback)) if one.callback else {}
    notes = getattr(annotations.get(parameter.name), "__metadata__", ())
    return next((note.help for note in notes if getattr(note, "help", None)), None)


def program() -> None:
    """The program `fedpriv`: a long command works in a child, and its parent gives the code."""
    if sys.argv[1:2] and sys.argv[1] in LONG and hasattr(os, "fork"):
        from fedpriv.simulations.cli.supervised import supervised

        supervised(main)
    main()


def main() -> None:
    """Run a command in this process; every expected failure is one message and its exit code."""
    for name, value in {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }.items():
        os.environ.setdefault(name, value)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    here = str(Path.cwd())  # where parts of one's own, my_parts:Name, are looked for last
    sys.path.append(here)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), here)))
    logging.getLogger(TOLD).setLevel(logging.INFO)
    try:
        command()()
    except FedprivError as error:
        err.print(f"[bold red]error:[/] {_escaped(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
