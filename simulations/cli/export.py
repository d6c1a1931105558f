"""`fedpriv export`: a run for TensorBoard or MLflow."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Target(StrEnum):
    tensorboard = "tensorboard"
    mlflow = "mlflow"


def export(
    folder: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[Target, typer.Option(help="Where the run goes.")],
    out: Annotated[
        str | None,
        typer.Option(
            help="A folder, or for MLflow a tracking address. Default: tensorboard, mlruns."
        ),
    ] = None,
    experiment: Annotated[str, typer.Option(help="MLflow's experiment.")] = "fedpriv",
) -> None:
    """Hand a run over to TensorBoard or MLflow: scalars, parameters, pictures, the report."""
    from fedpriv.simulations.cli.values import writable
    from fedpriv.simulations.export import to_mlflow, to_tensorboard

    target = out or ("tensorboard" if to is Target.tensorboard else "mlruns")
    if "://" not in target:
        writable(Path(target) / "events")
    if to is Target.tensorboard:
        for place in to_tensorboard(folder, Path(target)):
            typer.echo(place)
    else:
        for number in to_mlflow(folder, target, experiment):
            typer.echo(number)
