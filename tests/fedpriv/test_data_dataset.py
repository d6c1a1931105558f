import pytest
import torch
from torch.testing import assert_close

from fedpriv.catalogue import DATASETS
from fedpriv.data.dataset import Dataset, stratified
from fedpriv.errors import BadData, BadOption


@pytest.fixture
def images():
    return DATASETS.build("synthetic", {"channels": 3, "classes": 4}, root=None)


def test_what_a_model_takes_has_the_stated_scale(images):
    pixels = images.x_train[:5].float() / 255
    assert_close(images.normalised(images.x_train[:5]), (pixels - 0.5) / 0.25)


def test_floats_are_taken_as_pixels_in_the_unit_interval(images):
    bytes_ = images.x_train[:5]
    assert_close(images.normalised(bytes_.float() / 255), images.normalised(bytes_))


def test_denormalising_gives_the_pixels_back_for_any_leading_axes(images):
    x = images.x_train[:6].reshape(2, 3, *images.shape)
    assert_close(images.denormalised(images.normalised(x)), x.float() / 255)


def test_a_picture_is_clamped_unless_told_otherwise(images):
    far = torch.full((1, *images.shape), 9.0)
    assert images.denormalised(far).max() == 1
    assert images.denormalised(far, clamp=False).max() > 1


def test_tables_pass_unchanged():
    table = DATASETS.build("synthetic", {"kind": "table"}, root=None)
    assert_close(table.denormalised(table.normalised(table.x_train)), table.x_train)
    assert table.dimensions == {"channels": 16, "size": 1, "classes": 4}


def test_signals_are_scaled_by_channel():
    signals = DATASETS.build("synthetic", {"kind": "signals", "channels": 2}, root=None)
    x = signals.normalised(signals.x_train)
    assert_close(x, (signals.x_train - 0.5) / 0.25)
    assert_close(signals.denormalised(x), signals.x_train)


def test_a_limit_keeps_the_class_shares_and_the_seed_decides(images):
    small = images.limited(40, seed=1)
    assert small.y_train.bincount().tolist() == [10, 10, 10, 10]
    assert len(small.y_test) == 10
    assert_close(small.x_train, images.limited(40, seed=1).x_train)
    assert not torch.equal(small.x_train, images.limited(40, seed=2).x_train)


def test_test_samples_have_a_limit_of_their_own(images):
    every = len(images.y_test)
    assert len(images.limited(40, tests=every).y_test) == every
    assert len(images.limited(40, tests=10**6).y_test) == every
    few = images.limited(tests=8)
    assert len(few.y_test) == 8 and len(few.y_train) == len(images.y_train)
    assert images.limited() is images


def test_uneven_shares_are_kept_to_within_one_sample():
    labels = torch.tensor([0] * 70 + [1] * 29 + [2])
    picked = labels[stratified(labels, 10, seed=0)]
    assert picked.bincount(minlength=3).tolist() == [7, 3, 0]


@pytest.mark.parametrize("n", [0, -1, 513])
def test_an_impossible_limit_is_named(images, n):
    with pytest.raises(BadOption, match=rf"1\.\.512.*got {n}"):
        images.limited(n)


def broken(**changes):
    parts = {
        "x_train": torch.zeros(4, 2),
        "y_train": torch.tensor([0, 1, 0, 1]),
        "x_test": torch.zeros(2, 2),
        "y_test": torch.tensor([0, 1]),
    }
    return Dataset(name="mine", classes=2, **{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": torch.tensor([0, 1, 2, 0])}, "labels from 0 to 2"),
        ({"y_test": torch.tensor([0])}, "2 test samples and 1 labels"),
        ({"x_test": torch.zeros(2, 3)}, "shape"),
        ({"x_train": torch.full((4, 2), torch.nan)}, "NaN"),
        ({"x_test": torch.zeros(0, 2), "y_test": torch.zeros(0).long()}, "no test samples"),
    ],
)
def test_data_that_contradict_themselves_are_refused(changes, message):
    with pytest.raises(BadData, match=message):
        broken(**changes)
