"""--data: what an app asks of the hub, served from data that are here.

The app calls datasets.load_dataset or flwr-datasets as always, and partitions as it says.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import torch
from PIL import Image

from fedpriv.catalogue import DATASETS
from fedpriv.data import vision
from fedpriv.data.dataset import Dataset
from fedpriv.data.sources import VARIABLE
from fedpriv.data.tabular import ADULT
from fedpriv.errors import BadData, BadOption
from fedpriv.registry import FOREIGN, imported, said

Served = Callable[[], datasets.DatasetDict]
IMAGES = {
    known.source.name: known
    for known in vars(vision).values()
    if isinstance(known, vision.ImageSet)
}


def parsed_data(given: Sequence[str]) -> dict[str, str]:
    """`uoft-cs/cifar10=cifar10` as a table."""
    found = {}
    for one in given:
        asked, _, ours = one.partition("=")
        if not asked or not ours:
            raise BadOption(
                f"--data '{one}' must be NAME=OURS: the name that the app asks for, and a data set "
                "of `fedpriv list data`, a file.csv, or pkg.module:function."
            )
        found[asked] = ours
    return found


def serve(wanted: Mapping[str, str]) -> None:
    """From now on in this process, datasets.load_dataset gives these data under these names."""
    real = datasets.load_dataset
    made: dict[str, datasets.DatasetDict] = {}

    def load_dataset(path: str, *arguments: Any, split: Any = None, **named: Any) -> Any:
        if path not in wanted:
            try:
                return real(path, *arguments, split=split, **named)
            except (ConnectionError, FileNotFoundError, OSError) as error:
                raise BadData(
                    f"The app asks for the data set '{path}', which cannot be fetched "
                    f"({said(error)[:120]}). Serve your own under that name: --data "
                    f"{path}=cifar10, --data {path}=file.csv or --data "
                    f"{path}=pkg.module:function."
                ) from error
        if path not in made:
            made[path] = tables_of(wanted[path])
        return made[path] if split is None else part_of(made[path], str(split), path)

    datasets.load_dataset = load_dataset


def part_of(tables: datasets.DatasetDict, split: str, name: str) -> datasets.Dataset:
    """One split, or a slice of it as in "train[:10%]"."""
    base, _, cut = split.partition("[")
    if base not in tables:
        raise BadData(f"'{name}' is served with the splits {', '.join(tables)}, not '{base}'.")
    table = tables[base]
    if not cut:
        return table
    first, _, last = cut.rstrip("]").partition(":")
    places = [
        round(len(table) * float(edge.rstrip("%")) / 100) if edge.endswith("%") else int(edge)
        for edge in (first or "0", last or str(len(table)))
    ]
    return table.select(range(*places))


def tables_of(ours: str) -> datasets.DatasetDict:
    """Our data with the columns that they have on the hub."""
    if ours.endswith((".csv", ".csv.gz")):
        return datasets.DatasetDict({"train": from_csv(Path(ours))})
    if ":" in ours:
        return from_function(ours)
    if ours == ADULT.name:
        return adult_rows()
    known = DATASETS.build(ours, {})
    if not known.is_image:
        raise BadOption(
            f"--data serves pictures by name, and '{ours}' is none; give a file.csv or "
            "pkg.module:function that returns a datasets.DatasetDict."
        )
    about = IMAGES.get(ours)
    picture, label = (about.picture, about.label) if about else ("image", "label")
    return of_pictures(known, picture, label)


def of_pictures(known: Dataset, picture: str, label: str) -> datasets.DatasetDict:
    """Pictures as PIL images and class labels, train and test."""
    parts = {"train": (known.x_train, known.y_train), "test": (known.x_test, known.y_test)}
    features = datasets.Features(
        {
            picture: datasets.Image(),
            label: datasets.ClassLabel(num_classes=known.classes),
        }
    )
    return datasets.DatasetDict(
        {
            part: datasets.Dataset.from_dict(
                {picture: [as_png(one) for one in x], label: y.tolist()}, features=features
            )
            for part, (x, y) in parts.items()
        }
    )


def as_png(x: torch.Tensor) -> dict[str, Any]:
    """A picture (C, H, W) of bytes as the hub stores it."""
    values = x if x.dtype == torch.uint8 else (255 * x).round().to(torch.uint8)
    array = values.permute(1, 2, 0).numpy()
    stream = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[2] == 1 else array).save(stream, "PNG")
    return {"bytes": stream.getvalue(), "path": None}


def adult_rows() -> datasets.DatasetDict:
    """The census rows with the columns of the hub's copy."""
    path = ADULT.file(None)
    if path is None:
        raise ADULT.missing(f"{VARIABLE} names no folder that has it")
    rows = pd.read_csv(path)
    train = rows[rows["split"] == "train"].drop(columns="split")
    named = train.rename(columns=lambda name: name.replace("_", "."))
    table = datasets.Dataset.from_pandas(named, preserve_index=False)
    return datasets.DatasetDict({"train": table})


def from_csv(path: Path) -> datasets.Dataset:
    try:
        return datasets.Dataset.from_csv(str(path))
    except FOREIGN as error:
        raise BadData(f"--data: '{path}' cannot be read as CSV: {said(error)}.") from error


def from_function(path: str) -> datasets.DatasetDict:
    """What somebody's function gives: a DatasetDict, or one of our Datasets."""
    try:
        found = imported(path, "--data")()
    except FOREIGN as error:
        raise BadOption(f"--data '{path}' failed: {said(error)}.") from error
    if isinstance(found, Dataset):
        return of_pictures(found, "image", "label")
    if not isinstance(found, datasets.DatasetDict):
        raise BadOption(
            f"--data '{path}' must give a datasets.DatasetDict, got {type(found).__name__}."
        )
    return found
