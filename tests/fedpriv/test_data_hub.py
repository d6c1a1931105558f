"""Data of the hub, read from copies in a folder by flwr-datasets: nothing is fetched."""

import numpy as np
import pytest

from fedpriv.catalogue import DATASETS
from fedpriv.errors import BadData

FACES = {"gender": [0, 1, 0, 1], "age": [8, 0, 3, 3], "race": [6, 5, 0, 1]}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A function that writes one parquet file a split, and gives the folder's name."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)
    folder = tmp_path / "copy"
    folder.mkdir()

    def write(**tables):
        for split, columns in tables.items():
            datasets.Dataset.from_dict(columns).to_parquet(folder / f"{split}.parquet")
        return str(folder)

    return write


def pictures(n, side, mode):
    from PIL import Image

    shape = (n, side, side) if mode == "L" else (n, side, side, 3)
    values = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    return values, [Image.fromarray(value) for value in values]


def test_images_come_in_the_hubs_own_order(hub):
    values, images = pictures(6, 28, "L")
    table = {"image": images, "label": [3, 1, 4, 1, 5, 9]}
    data = DATASETS.build("mnist", {"hub": hub(train=table, test=table)}, root=None)
    np.testing.assert_array_equal(data.x_train[:, 0].numpy(), values)
    assert data.y_test.tolist() == [3, 1, 4, 1, 5, 9]


def test_larger_faces_are_resized_and_keep_their_attributes(hub):
    _, images = pictures(4, 64, "RGB")
    table = {"image": images, **FACES}
    data = DATASETS.build("fairface", {"hub": hub(train=table, validation=table)}, root=None)
    assert data.shape == (3, 48, 48)
    assert data.attributes["race"][1].tolist() == FACES["race"]


def test_a_copy_with_other_columns_is_refused(hub):
    _, images = pictures(4, 28, "L")
    table = {"image": images, "digit": [0, 1, 2, 3]}
    with pytest.raises(BadData, match="no column 'label'; it has image, digit"):
        DATASETS.build("mnist", {"hub": hub(train=table, test=table)}, root=None)


def test_a_census_on_the_hub_is_cut_in_three(hub):
    names = (
        "workclass education marital.status occupation relationship race sex native.country"
    ).replace(" ", ",")
    table = {name: ["a", "b", "a", "b", "a", "b"] for name in names.split(",")}
    for name in ("age", "education.num", "capital.gain", "capital.loss", "hours.per.week"):
        table[name] = [20, 30, 40, 50, 60, 70]
    table["income"] = ["<=50K", ">50K"] * 3
    data = DATASETS.build("adult", {"hub": hub(train=table)}, root=None)
    assert len(data.y_train) == 4 and data.y_test.tolist() == [0, 1]


def test_an_absent_copy_names_all_three_ways(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDPRIV_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadData, match=r"the hub says.*\(1\).*\(2\).*\(3\)"):
        DATASETS.build("mnist", {"hub": str(tmp_path / "a" / "b")}, root=None)
