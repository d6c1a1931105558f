"""`fedpriv report`: the page of runs or of a sweep."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or the folder of a sweep.")],
    out: Annotated[
        Path | None, typer.Option(help="The page. Default: report.html in the first folder.")
    ] = None,
) -> None:
    """Make one self-contained HTML page of runs or of a sweep."""
    from fedpriv.report.page import write_report

    typer.echo(write_report(folders, out))
