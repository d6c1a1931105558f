"""Adult: 13 attributes of a census as 133 columns (ARS sect. 5.1)."""

import csv
import gzip
import io
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedpriv.data import hub as hub_
from fedpriv.data.dataset import Dataset
from fedpriv.data.sources import Source
from fedpriv.errors import BadData

ADULT = Source("adult", ("adult.csv.gz", "adult.csv"), "scikit-learn/adult-census-income")

CATEGORIES = (
    "workclass",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)
NUMBERS = ("age", "capital_gain", "capital_loss", "hours_per_week")
SKEWED = ("capital_gain", "capital_loss")  # scaled as log(1 + value)
AGES = (18, 25, 30, 35, 40, 45, 50, 55, 60, 65)  # the borders of eleven age groups
FIELDS = (*CATEGORIES, *NUMBERS, "income")

Table = dict[str, np.ndarray]  # texts by column


def from_file(path: Path) -> tuple[Table, Table]:
    """Training and test rows of a CSV file with a column `split`."""
    wanted = (*FIELDS, "split")
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        header, *rows = csv.reader(io.StringIO(text))
        absent = [name for name in wanted if name not in header]
        if absent:
            raise BadData(f"{path} lacks the column {', '.join(absent)}: it is not Adult.")
        cells = dict(zip(header, map(np.array, zip(*rows, strict=True)), strict=True))
    except (OSError, EOFError, zlib.error, ValueError, csv.Error) as error:
        raise BadData(f"{path} is damaged: {error}. Fetch it again.") from error
    return (
        {name: cells[name][cells["split"] == "train"] for name in FIELDS},
        {name: cells[name][cells["split"] == "test"] for name in FIELDS},
    )


def from_hub(source: Source) -> tuple[Table, Table]:
    """The hub has the training file only: the last third of it is the test set."""
    (table,) = hub_.splits(source, ("train",))
    cells = {
        name.replace(".", "_"): np.array([str(value).strip() for value in table[name][:]])
        for name in table.column_names
    }
    absent = [name for name in FIELDS if name not in cells]
    if absent:
        raise BadData(f"The hub's '{source.hub}' lacks the column {', '.join(absent)}.")
    border = len(cells["income"]) * 2 // 3
    return (
        {name: cells[name][:border] for name in FIELDS},
        {name: cells[name][border:] for name in FIELDS},
    )


def numbers(table: Table, name: str) -> np.ndarray:
    try:
        return table[name].astype(float)
    except ValueError as error:
        raise BadData(f"Adult: {name} must hold numbers: {error}.") from error


def one_hot(values: np.ndarray, choices: np.ndarray) -> np.ndarray:
    """(N, len(choices)); a value that is no choice has no one."""
    found: np.ndarray = (values[:, None] == choices[None, :]).astype(np.float32)
    return found


def columns(train: Table, test: Table) -> tuple[np.ndarray, np.ndarray, dict[str, slice]]:
    """Both parts as float32 in [0, 1], and each attribute's columns. Only train decides them."""
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    groups: dict[str, slice] = {}

    def add(name: str, first: np.ndarray, second: np.ndarray) -> None:
        start = sum(values.shape[1] for values, _ in parts)
        groups[name] = slice(start, start + first.shape[1])
        parts.append((first, second))

    for name in NUMBERS:
        a, b = numbers(train, name), numbers(test, name)
        if name in SKEWED:
            a, b = np.log1p(a), np.log1p(b)
        low, span = a.min(), max(np.ptp(a), 1e-9)
        scaled = (((part - low) / span).clip(0, 1).astype(np.float32) for part in (a, b))
        add(name, *(part[:, None] for part in scaled))
    older = (np.searchsorted(AGES, numbers(part, "age"), side="right") for part in (train, test))
    add("age:group", *(one_hot(part, np.arange(len(AGES) + 1)) for part in older))
    for name in CATEGORIES:
        choices = np.unique(train[name])
        add(name, one_hot(train[name], choices), one_hot(test[name], choices))
    return np.hstack([a for a, _ in parts]), np.hstack([b for _, b in parts]), groups


def labels(table: Table, name: str, choices: np.ndarray) -> Tensor:
    """The place of each value among the sorted choices."""
    values = np.char.rstrip(table[name], ".")  # UCI's test file ends its labels with one
    strange = values[~np.isin(values, choices)]
    if strange.size:
        raise BadData(f"Adult: {name} must be one of {', '.join(choices)}; got '{strange[0]}'.")
    return torch.from_numpy(np.searchsorted(choices, values))


def adult(root: str | None = None, hub: str = "") -> Dataset:
    """Does a person earn over 50K? 133 columns in [0, 1]; attributes sex and race.

    The paper says 13 attributes and 133 columns, not which. All but the sampling weight are 13; one
    column for every category (unknown is one), the years of education among them, 118, eleven
    age groups and four scaled numbers make 133.

    Args:
        root: The folder with the files.
        hub: Another copy on the hub of data sets, by name.
    """
    source = replace(ADULT, hub=hub) if hub else ADULT
    path = source.file(root)
    train, test = from_file(path) if path is not None else from_hub(source)
    if not len(train["income"]) or not len(test["income"]):
        raise BadData(
            f"Adult has {len(train['income'])} training and {len(test['income'])} test rows; "
            "both need some."
        )
    x_train, x_test, groups = columns(train, test)
    known = {name: np.unique(train[name]) for name in ("sex", "race")}
    income = np.array(("<=50K", ">50K"))
    return Dataset(
        name="adult",
        x_train=torch.from_numpy(x_train),
        y_train=labels(train, "income", income),
        x_test=torch.from_numpy(x_test),
        y_test=labels(test, "income", income),
        classes=2,
        attributes={
            name: (labels(train, name, choices), labels(test, name, choices))
            for name, choices in known.items()
        },
        groups=groups,
    )
