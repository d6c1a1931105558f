"""`fedpriv report`: the page of runs or of a sweep, the sheet to sign, and what two runs share."""

from pathlib import Path
from typing import Annotated

import typer

SHOWN = 10  # files of each kind that a comparison names


def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or the folder of a sweep.")],
    out: Annotated[
        Path | None, typer.Option(help="The page. Default: report.html in the first folder.")
    ] = None,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Two pages to sign instead, of an audit: report.pdf.")
    ] = False,
    other: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            help="Compare the files with those of another run's folder or manifest.json instead. "
            "Exits with 1 when results differ.",
        ),
    ] = None,
) -> None:
    """Make one self-contained HTML page of runs or of a sweep."""
    from fedpriv.errors import BadOption
    from fedpriv.report.page import write_report

    if pdf and other is not None:
        raise BadOption("--pdf and --compare do different things; give one of them.")
    if (pdf or other is not None) and len(folders) != 1:
        option = "--pdf" if pdf else "--compare"
        raise BadOption(f"{option} takes one folder, got {len(folders)}.")
    if other is not None:
        if out is not None:
            raise BadOption("--compare writes nothing; leave --out out.")
        told(folders[0], other)
    elif pdf:
        from fedpriv.report.sheet import write_sheet
        from fedpriv.runfolder import RunFolder
        from fedpriv.simulations.dp.card import written_card

        if RunFolder(folders[0]).scenario_file.exists():
            written_card(RunFolder(folders[0]))
        typer.echo(write_sheet(folders[0], out))
    else:
        typer.echo(write_report(folders, out))


def told(one: Path, other: Path) -> None:
    """Print what differs; GateCrossed when a result does."""
    from fedpriv.errors import GateCrossed
    from fedpriv.manifest import compare

    found = compare(one, other)
    for word, files in (
        ("changed since its manifest was written", found.changed),
        (f"only in {one}", found.missing),
        (f"only in {other}", found.added),
        ("different", found.different),
        ("the same but for times, places and machines", found.timed),
    ):
        for path in files[:SHOWN]:
            typer.echo(f"{word}: {path}")
        if len(files) > SHOWN:
            typer.echo(f"{word}: {len(files) - SHOWN} more")
    count = len(found.equal) + len(found.timed)
    if not found.same:
        rest = len(found.different) + len(found.missing) + len(found.added)
        raise GateCrossed(f"{rest} files differ between '{one}' and '{other}', {count} do not.")
    typer.echo(f"{count} files hold the same, {len(found.equal)} of them byte for byte")
