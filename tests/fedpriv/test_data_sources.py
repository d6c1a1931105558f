import csv
import gzip

import numpy as np
import pytest
import torch

from fedpriv.catalogue import DATASETS
from fedpriv.errors import BadData


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)


def cifar(n=20, side=32, classes=10, **changes):
    draw = np.random.default_rng(0)
    parts = {
        "x_train": draw.integers(0, 256, (n, side, side, 3), np.uint8),
        "y_train": (np.arange(n) % classes).astype(np.uint8),
        "x_test": draw.integers(0, 256, (n // 2, side, side, 3), np.uint8),
        "y_test": (np.arange(n // 2) % classes).astype(np.uint8),
    }
    return {**parts, **changes}


def test_a_file_in_root_is_read_channels_first(tmp_path):
    stored = cifar()
    np.savez_compressed(tmp_path / "cifar10_10k.npz", **stored)
    data = DATASETS.build("cifar10", root=str(tmp_path))
    assert data.shape == (3, 32, 32) and data.x_train.dtype == torch.uint8
    assert data.y_train.dtype == torch.int64
    np.testing.assert_array_equal(data.x_train[3, 2].numpy(), stored["x_train"][3, :, :, 2])


def test_the_complete_file_comes_first_and_the_variable_is_second_to_root(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    np.savez(tmp_path / "a" / "cifar10_10k.npz", **cifar(20))
    np.savez(tmp_path / "b" / "cifar10_10k.npz", **cifar(30))
    np.savez(tmp_path / "b" / "cifar10.npz", **cifar(40))
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path / "a"))
    assert len(DATASETS.build("cifar10", root=None).y_train) == 20
    assert len(DATASETS.build("cifar10", root=str(tmp_path / "b")).y_train) == 40


def test_raw_pixels_on_request(tmp_path):
    np.savez(tmp_path / "cifar10.npz", **cifar())
    data = DATASETS.build("cifar10", {"normalise": False}, root=str(tmp_path))
    torch.testing.assert_close(data.normalised(data.x_train), data.x_train.float() / 255)


def test_grey_images_get_a_channel(tmp_path):
    stored = cifar(side=28)
    stored.update({key: stored[key][..., 0] for key in ("x_train", "x_test")})
    np.savez(tmp_path / "mnist.npz", **stored)
    assert DATASETS.build("mnist", root=str(tmp_path)).shape == (1, 28, 28)


def test_attributes_come_along(tmp_path):
    stored = cifar(side=48, classes=2)
    for name in ("gender", "age", "race"):
        stored[f"{name}_train"], stored[f"{name}_test"] = stored["y_train"], stored["y_test"]
    np.savez(tmp_path / "fairface_48.npz", **stored)
    data = DATASETS.build("fairface", root=str(tmp_path))
    assert set(data.attributes) == {"gender", "age", "race"}
    assert [len(part) for part in data.limited(10).attributes["age"]] == [10, 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.full(20, 10, np.uint8)}, "labels from 10 to 10"),
        ({"y_train": np.zeros(19, np.uint8)}, "20 train samples and 19 labels"),
        ({"y_train": np.zeros(20)}, "whole numbers"),
        ({"x_train": np.zeros((20, 28, 28), np.uint8)}, "another set's file"),
        ({"x_train": np.zeros((20, 32, 32, 3))}, "float64"),
        ({"y_test": np.array([None] * 10)}, "damaged"),
    ],
)
def test_a_mislabelled_file_is_refused(tmp_path, changes, message):
    np.savez(tmp_path / "cifar10.npz", **cifar(**changes))
    with pytest.raises(BadData, match=message):
        DATASETS.build("cifar10", root=str(tmp_path))


def test_a_file_without_labels_is_refused(tmp_path):
    np.savez(tmp_path / "cifar10.npz", x_train=cifar()["x_train"])
    with pytest.raises(BadData, match=r"lacks y_train, x_test, y_test"):
        DATASETS.build("cifar10", root=str(tmp_path))


@pytest.mark.parametrize("keep", [0, 10, 3000, -100])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = tmp_path / "cifar10.npz"
    np.savez(path, **cifar())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadData, match="cifar10.npz is damaged"):
        DATASETS.build("cifar10", root=str(tmp_path))


def test_damage_inside_an_archive_is_refused(tmp_path):
    path = tmp_path / "cifar10.npz"
    np.savez_compressed(path, **cifar())
    content = bytearray(path.read_bytes())
    content[2000:2400] = bytes(400)
    path.write_bytes(content)
    with pytest.raises(BadData, match="damaged"):
        DATASETS.build("cifar10", root=str(tmp_path))


def test_a_bare_array_is_no_archive(tmp_path):
    with (tmp_path / "cifar10.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(BadData, match="no npz file"):
        DATASETS.build("cifar10", root=str(tmp_path))


@pytest.mark.parametrize("name", ["cifar10", "adult", "har", "olivetti"])
def test_a_missing_set_names_all_three_ways(tmp_path, name):
    with pytest.raises(BadData) as caught:
        DATASETS.build(name, root=str(tmp_path))
    for way in ("(1) set root", "(2) set the environment variable FEDPRIV_DATA", "(3)", "hub"):
        assert way in str(caught.value)


@pytest.mark.parametrize("name", ["har", "olivetti", "fairface"])
def test_a_set_the_hub_lacks_is_an_error_without_any_search(name):
    with pytest.raises(BadData, match=r"now unset.*\(3\)"):
        DATASETS.build(name, root=None)


def har(**changes):
    parts = {
        "x_train": np.ones((12, 6, 128), np.int16) * np.arange(12, dtype=np.int16)[:, None, None],
        "y_train": np.arange(12, dtype=np.uint8) % 6,
        "subject_train": np.arange(12, dtype=np.uint8) % 3,
        "x_test": np.ones((6, 6, 128), np.int16),
        "y_test": np.arange(6, dtype=np.uint8),
        "subject_test": np.full(6, 4, np.uint8),
        "scale": np.arange(1, 7, dtype=np.float32) / 10,
    }
    return {**parts, **changes}


def test_signals_are_scaled_and_keep_their_owners(tmp_path):
    np.savez(tmp_path / "har_hapt.npz", **har())
    data = DATASETS.build("har", root=str(tmp_path))
    assert data.shape == (6, 128) and data.classes == 6
    torch.testing.assert_close(data.x_train[5, :, 0], torch.arange(1, 7) * 0.5)
    assert data.ids[0].tolist() == [0, 1, 2] * 4
    assert abs(data.normalised(data.x_train).mean()) < 1e-5


def test_signals_that_do_not_fit_are_refused(tmp_path):
    np.savez(tmp_path / "har.npz", **har(scale=np.ones(3, np.float32)))
    with pytest.raises(BadData, match=r"scale \(C,\)"):
        DATASETS.build("har", root=str(tmp_path))


COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
    "split",
]
ROWS = [
    "39 State-gov 7 Bachelors 13 Single Clerk Alone White Male 2174 0 40 Here <=50K train",
    "17 Private 7 9th 5 Single ? Child Black Female 0 0 10 Here <=50K train",
    "70 Private 7 Masters 14 Married Boss Wife White Female 0 1902 60 ? >50K train",
    "45 Private 7 Masters 14 Married Boss Wife White Female 0 0 99 There >50K. test",
]


def census(path, rows=ROWS, columns=COLUMNS):
    with gzip.open(path / "adult.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows([columns, *(row.split() for row in rows)])
    return str(path)


def test_a_census_row_becomes_scaled_numbers_and_one_hot_groups(tmp_path):
    data = DATASETS.build("adult", root=census(tmp_path))
    first = {name: data.x_train[0, place].tolist() for name, place in data.groups.items()}
    assert first["age"] == pytest.approx([22 / 53])
    assert first["capital_gain"] == [1.0]
    assert first["age:group"] == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]  # 35 to 39
    assert first["workclass"] == [0, 1] and first["sex"] == [0, 1]
    assert data.y_train.tolist() == [0, 0, 1] and data.y_test.tolist() == [1]
    assert data.attributes["race"][0].tolist() == [1, 0, 1]


def test_a_category_unknown_to_training_has_no_column(tmp_path):
    data = DATASETS.build("adult", root=census(tmp_path))
    assert data.x_test[0, data.groups["native_country"]].tolist() == [0, 0]
    assert data.x_test[0, data.groups["hours_per_week"]].tolist() == [1]  # 99 is beyond the range


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (ROWS, [c.replace("sex", "sax") for c in COLUMNS], "lacks the column sex"),
        ([ROWS[0].replace("39", "old"), *ROWS[1:]], COLUMNS, "age must hold numbers"),
        ([ROWS[0].replace("<=50K", "lots"), *ROWS[1:]], COLUMNS, "income.*got 'lots'"),
        (ROWS[:3], COLUMNS, "3 training and 0 test"),
        ([*ROWS, "1 2 3"], COLUMNS, "damaged"),
        ([], COLUMNS, "damaged"),
    ],
)
def test_a_census_that_is_wrong_is_refused(tmp_path, rows, columns, message):
    with pytest.raises(BadData, match=message):
        DATASETS.build("adult", root=census(tmp_path, rows, columns))


def test_a_truncated_census_is_refused(tmp_path):
    census(tmp_path)
    path = tmp_path / "adult.csv.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadData, match="damaged"):
        DATASETS.build("adult", root=str(tmp_path))
