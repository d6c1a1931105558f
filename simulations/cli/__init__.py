"""The `fedpriv` command: one file per command, no logic here."""

import logging
import os
import sys

import typer

from fedpriv.errors import FedprivError
from fedpriv.simulations.cli.terminal import err

app = typer.Typer(
    name="fedpriv",
    help="Find out how much private data leaks from what a federation shares.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def register() -> None:
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
        run,
        search,
        sweep,
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
    app.command("pareto")(guarded(pareto.pareto))
    app.command("report")(guarded(report.report))
    app.command("watch")(guarded(watch.watch))
    app.command("export")(guarded(export.export))
    app.command("scenarios")(guarded(catalogue.scenarios))
    app.command("list")(guarded(catalogue.listing))
    app.add_typer(deploy.app, name="deploy")
    app.add_typer(verify_dp.app, name="verify-dp")


def main() -> None:
    """Run a command; every expected failure is one message and its exit code."""
    for name, value in {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }.items():
        os.environ.setdefault(name, value)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    register()
    try:
        app()
    except FedprivError as error:
        err.print(f"[bold red]error:[/] {_escaped(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
