"""A finished run as TensorBoard events or as an MLflow run."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from fedpriv.errors import BadOption
from fedpriv.metrics.images import CEILING
from fedpriv.report.leakage import measures
from fedpriv.report.reading import Run, read_material
from fedpriv.runfolder import RunFolder

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXTRA = "it is not installed; install fedpriv with the extra: pip install 'fedpriv[export]'."


def to_tensorboard(folder: Path, out: Path) -> list[Path]:
    """Write an events folder for every run in `folder`, below `out`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise BadOption(f"Exporting to TensorBoard needs tensorboard; {EXTRA}") from error
    places = []
    for run in read_material([folder]).runs:
        place = out / run.name
        with SummaryWriter(log_dir=str(place)) as writer:
            for name, value, step in scalars(run):
                writer.add_scalar(name, value, step)
            for name, picture, step in pictures(run):
                pixels = np.asarray(Image.open(picture).convert("RGB"))
                writer.add_image(name, pixels, step, dataformats="HWC")
            writer.add_text("scenario", f"```toml\n{run.scenario.toml()}```")
            writer.add_text("parameters", "\n".join(f"- {k}: {v}" for k, v in parameters(run)))
        places.append(place)
    return places


def to_mlflow(folder: Path, uri: str, experiment: str = "fedpriv") -> list[str]:
    """Log every run in `folder` to a tracking store, a folder or an address; the new runs' ids."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise BadOption(f"Exporting to MLflow needs mlflow-skinny; {EXTRA}") from error
    if "://" not in uri:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow refuses folders otherwise
        uri = Path(uri).resolve().as_uri()
    try:
        client = MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else client.create_experiment(experiment)
        page = RunFolder(folder).report_file  # of all variants, which have none of their own
        return [_logged(client, place, run, page) for run in read_material([folder]).runs]
    except (MlflowException, OSError) as error:
        raise BadOption(f"MLflow at '{uri}' took nothing: {error}") from error


def _logged(client: "MlflowClient", experiment: str, run: Run, page: Path) -> str:
    made = client.create_run(experiment, run_name=run.name, tags={"defence": run.defence})
    number = made.info.run_id
    for key, value in parameters(run):
        client.log_param(number, key, value)
    for name, figure, step in scalars(run):
        client.log_metric(number, name, figure, step=step)
    for name, picture, _ in pictures(run):
        client.log_artifact(number, str(picture), artifact_path=name)
    for file in (page, run.folder.scenario_file, run.folder.scores_file):
        if file.exists():
            client.log_artifact(number, str(file))
    client.set_terminated(number)
    found: str = number
    return found


def scalars(run: Run) -> Iterator[tuple[str, float, int]]:
    """Name, value and round: every number of a round, and each attack's median and worst."""
    for record in run.rounds:
        for key, value in record.items():
            if isinstance(value, int | float) and key != "round":
                yield f"training/{key}", float(value), record["round"]
    for what in measures(run.scores):
        for found, rows in run.scores.groupby(["attack", "round"], sort=True):
            attack, number = str(found[0]), int(str(found[1]))
            values = rows[what.name].dropna().clip(-CEILING, CEILING)
            if len(values):
                worst = values.max() if what.high else values.min()
                name = f"leakage/{plain(attack)}/{what.name}"
                yield f"{name}-median", float(values.median()), number
                yield f"{name}-worst", float(worst), number


def pictures(run: Run) -> Iterator[tuple[str, Path, int]]:
    """Attack, file and round of every picture."""
    for file in sorted(run.folder.attacks.glob("*/*.png")):
        number = file.stem.partition("-")[0]
        name = f"{plain(file.parent.name)}/{file.stem.partition('-')[2]}"
        yield name, file, int(number) if number.isdigit() else 0


def plain(name: str) -> str:
    """A name that MLflow takes: its metrics know no plus sign."""
    return name.replace("+", " ")


def parameters(run: Run) -> list[tuple[str, str]]:
    """The scenario's settings, `training.lr` = `0.1`."""
    return list(_flat("", run.scenario.plain()))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), item)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            yield from _flat(f"{prefix}.{index}", item)
    else:
        yield prefix, str(value)
