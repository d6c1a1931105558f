"""`fedpriv pareto`: accuracy against leakage, all ways of sharing in one picture."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fedpriv.simulations.cli.terminal import out


def pareto(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, attacked.")],
    folder: Annotated[
        Path, typer.Option("--out", help="Where pareto.csv, pareto.png and pareto.html go.")
    ] = Path(),
) -> None:
    """Accuracy against the best attack's error, all ways of sharing in one picture."""
    from fedpriv.runfolder import RunFolder
    from fedpriv.simulations.judging.pareto import write_pareto

    table = Table("data", "shares", "run", "plugins", "accuracy", "MSE", "best attack", "front")
    for point in write_pareto(folders, RunFolder(folder)):
        table.add_row(
            point.data,
            point.way,
            point.run,
            point.plugins,
            f"{point.accuracy:.1%}",
            f"{point.mse:.4f}",
            point.attack,
            "yes" if point.front else "",
        )
    out.print(table)
