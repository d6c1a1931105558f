"""npz: samples of one's own in a file, with the client that has each of them."""

import json
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadData
from fedpriv.files import whole

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


def npz(path: str, root: str | None = None) -> Dataset:
    """The arrays x_train, y_train, x_test and y_test of a file, as `write_npz` writes them.

    Images are (N, C, H, W), bytes or floats in [0, 1]. `clients` (N,) says who has each training
    sample: data.partition = "natural" keeps to it. `facts` is a JSON text with the number of
    classes and, where samples are to be normalised, mean and std.

    Args:
        path: The file. A relative path starts at `data.root` where there is one.
        root: The folder of the file.
    """
    place = Path(root, path) if root else Path(path)
    try:
        with np.load(place, allow_pickle=False) as file:
            found = {name: torch.from_numpy(file[name]) for name in file.files if name != "facts"}
            facts = json.loads(str(file["facts"])) if "facts" in file.files else {}
        x_train, y_train, x_test, y_test = (found[name] for name in ARRAYS)
        clients = found.get("clients")
        return Dataset(
            name="npz",
            x_train=x_train,
            y_train=y_train.long(),
            x_test=x_test,
            y_test=y_test.long(),
            classes=int(facts.get("classes", 1 + int(y_train.max()))),
            mean=tuple(facts.get("mean", ())),
            std=tuple(facts.get("std", ())),
            ids=None if clients is None else (clients, torch.zeros(len(y_test), dtype=torch.long)),
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error) as error:
        raise BadData(
            f"'{place}' holds no samples: {error}. It must be an .npz file with the arrays "
            f"{', '.join(ARRAYS)}."
        ) from error


def write_npz(path: Path, dataset: Dataset) -> Path:
    """Write a file that `npz` reads."""
    tensors = {name: getattr(dataset, name) for name in ARRAYS}
    if dataset.ids is not None:
        tensors["clients"] = dataset.ids[0]
    arrays: dict[str, Any] = {name: value.numpy() for name, value in tensors.items()}
    facts = {"classes": dataset.classes, "mean": dataset.mean, "std": dataset.std}
    with whole(path) as beside, beside.open("wb") as file:
        np.savez(file, **arrays, facts=np.array(json.dumps(facts)))
    return path
