"""HAR: six activities from a phone's accelerometer and gyroscope (RAN sect. 3)."""

import numpy as np
import torch

from fedpriv.data.dataset import Dataset
from fedpriv.data.sources import Source, arrays
from fedpriv.errors import BadData

HAR = Source("har", ("har.npz", "har_hapt.npz"))
KEYS = ("x_train", "y_train", "subject_train", "x_test", "y_test", "subject_test", "scale")


def har(root: str | None = None, normalise: bool = True) -> Dataset:
    """Windows of 128 samples of six channels, in g and rad/s; `ids` are the thirty persons.

    Args:
        root: The folder with the files.
        normalise: Scale by the mean and the spread of the training samples. false keeps the units
            of the sensors.
    """
    path = HAR.file(root)
    if path is None:
        raise HAR.missing("no root, no file in the folder, and the hub has no windowed copy")
    found = arrays(path, KEYS)
    scale = found["scale"]
    for part in ("train", "test"):
        x, owners = found[f"x_{part}"], found[f"subject_{part}"]
        if x.ndim != 3 or scale.shape != (x.shape[1],) or owners.shape != x.shape[:1]:
            raise BadData(
                f"{path} must hold x_{part} (N, C, T), scale (C,) and subject_{part} (N,); "
                f"got {x.shape}, {scale.shape} and {owners.shape}."
            )
    x_train, x_test = (
        torch.from_numpy(found[key].astype(np.float32) * scale[None, :, None])
        for key in ("x_train", "x_test")
    )
    y_train, y_test, owners_train, owners_test = (
        torch.from_numpy(found[key].astype(np.int64))
        for key in ("y_train", "y_test", "subject_train", "subject_test")
    )
    mean, std = x_train.mean(dim=(0, 2)), x_train.std(dim=(0, 2))
    return Dataset(
        name="har",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        classes=6,
        mean=tuple(mean.tolist()) if normalise else (),
        std=tuple(std.tolist()) if normalise else (),
        ids=(owners_train, owners_test),
    )
