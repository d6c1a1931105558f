"""A run handed over to TensorBoard and MLflow, and read back with their own readers."""

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedpriv.errors import BadOption
from fedpriv.metrics.images import CEILING
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.export import to_mlflow, to_tensorboard


@pytest.fixture
def folder(tmp_path: Path, tiny) -> Path:
    made = RunFolder(tmp_path / "one")
    made.start(tiny)
    for number in (1, 2):
        figures = {"round": number, "accuracy": number / 4, "loss": 1.0, "failed": []}
        made.add_round(figures)
    about = {"run": "one", "round": 1, "attack": "adam+cosine"}
    values = (30.0, 20.0, math.inf)
    made.write_scores([{**about, "node": node, "psnr": psnr} for node, psnr in enumerate(values)])
    picture = made.picture_file("adam+cosine", "1-0")
    picture.parent.mkdir(parents=True)
    Image.fromarray(np.zeros((4, 6), dtype=np.uint8)).save(picture)
    return made.path


def test_tensorboard_reads_it_back(folder, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (place,) = to_tensorboard(folder, tmp_path / "events")
    events = EventAccumulator(str(place)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("training/accuracy")] == [(1, 0.25), (2, 0.5)]
    assert events.Scalars("leakage/adam cosine/psnr-median")[0].value == 30
    assert events.Scalars("leakage/adam cosine/psnr-worst")[0].value == CEILING
    assert events.Images("adam cosine/0")[0].width == 6


def test_mlflow_reads_it_back(folder, tmp_path):
    from mlflow import MlflowClient

    store = tmp_path / "store"
    (number,) = to_mlflow(folder, str(store), "leaks")
    client = MlflowClient(tracking_uri=store.as_uri())
    found = client.get_run(number)
    assert found.data.params["training.lr"] == "0.1"
    assert found.data.metrics["training/accuracy"] == 0.5
    assert found.data.metrics["leakage/adam cosine/psnr-median"] == 30
    assert found.info.status == "FINISHED"
    assert [item.path for item in client.list_artifacts(number, "adam cosine/0")] == [
        "adam cosine/0/1-0.png"
    ]
    (second,) = to_mlflow(folder, str(store), "leaks")  # the experiment is used again
    assert client.get_run(second).info.experiment_id == found.info.experiment_id


def test_variants_take_their_common_page_along(folder, tmp_path):
    from mlflow import MlflowClient

    (folder.parent / "report.html").write_text("a page")
    store = tmp_path / "store"
    (number,) = to_mlflow(folder.parent, str(store))
    artifacts = MlflowClient(tracking_uri=store.as_uri()).list_artifacts(number)
    assert "report.html" in [item.path for item in artifacts]


def test_a_store_that_refuses_is_named(folder):
    with pytest.raises(BadOption, match="nosuch://"):
        to_mlflow(folder, "nosuch://place")
