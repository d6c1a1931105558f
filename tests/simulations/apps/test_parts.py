"""The parts of judging an app: its folder, its data, its facts, its ε."""

import sys

import datasets
import pytest
import torch
from flwr_datasets import FederatedDataset

from fedpriv.errors import BadInput, BadOption
from fedpriv.simulations.apps import serving
from fedpriv.simulations.apps.moving import serve_moved
from fedpriv.simulations.apps.protocol import scale_of_bytes
from fedpriv.simulations.apps.running import check_trained, lacking
from fedpriv.simulations.apps.source import check_names, read_source
from fedpriv.simulations.apps.spending import Mechanism, mechanisms, sentence, verified
from fedpriv.simulations.apps.support import NotSupported, check_supported
from fedpriv.simulations.apps.watching import Watched

PROJECT = """
[project]
name = "theirs"
version = "1.0"
dependencies = ["torch==2.0.0", "flwr>=1.20"]
[tool.flwr.app]
publisher = "them"
[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{package}.client:app"
[tool.flwr.app.config]
lr = 0.1
model.depth = 3
"""


def app_in(folder, package="theirpackage", code="import torch\n"):
    (folder / package).mkdir()
    (folder / "pyproject.toml").write_text(PROJECT.format(package=package))
    for name in ("server", "client"):
        (folder / package / f"{name}.py").write_text(code)
    return str(folder)


def test_a_folder_gives_name_parts_settings_and_pins(tmp_path):
    found = read_source(app_in(tmp_path), ["lr=0.5"])
    assert (found.name, found.publisher, found.pins) == ("theirs", "them", ("torch==2.0.0",))
    assert found.config == {"lr": 0.5, "model.depth": 3}
    before = found.digest
    (tmp_path / "theirpackage" / "client.py").write_text("import torch  # changed\n")
    assert read_source(str(tmp_path)).digest != before


def test_what_is_no_app_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="no Flower app"):
        read_source(str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    with pytest.raises(BadInput, match="lacks .*serverapp and clientapp"):
        read_source(str(tmp_path))


def test_the_clients_of_an_app_are_those_of_the_federation_it_takes(tmp_path):
    app_in(tmp_path)
    file = tmp_path / "pyproject.toml"
    assert read_source(str(tmp_path)).nodes is None
    named = """
[tool.flwr.federations]
default = "small"
[tool.flwr.federations.large]
options.num-supernodes = 500
[tool.flwr.federations.small]
options.num-supernodes = 7
"""
    file.write_text(file.read_text("utf-8") + named, "utf-8")
    assert read_source(str(tmp_path)).nodes == 7


def test_a_setting_that_the_app_does_not_have_is_refused(tmp_path):
    with pytest.raises(BadOption, match="no setting 'lrr'. Did you mean 'lr'"):
        read_source(app_in(tmp_path), ["lrr=0.5"])


def test_a_package_with_the_name_of_an_installed_one_is_refused(tmp_path):
    with pytest.raises(BadInput, match="'torch' has the name of one that is installed"):
        check_names(read_source(app_in(tmp_path, "torch")))
    check_names(read_source(app_in(tmp_path)))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import xgboost as xgb\n", "shares trees"),
        ("import torch\nfrom transformers import Trainer\n", "language models"),
        ("from sklearn.linear_model import LogisticRegression\n", "trains with sklearn"),
        ("import numpy\n", "trains with numpy"),
    ],
)
def test_what_no_attack_fits_is_said_before_anything_runs(tmp_path, code, why):
    with pytest.raises(NotSupported, match=f"Not supported yet: .*{why}"):
        check_supported(read_source(app_in(tmp_path, code=code)))


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", datasets.load_dataset)
    serving.serve({"somebody/digits": "mnist-5k"})


def test_our_data_are_served_and_partitioned_as_the_app_says(served):
    found = FederatedDataset(dataset="somebody/digits", partitioners={"train": 10})
    part = found.load_partition(3)
    assert len(part) == 400
    assert part[0]["image"].size == (28, 28) and 0 <= part[0]["label"] < 10
    assert len(datasets.load_dataset("somebody/digits", split="test")) == 1000
    assert len(datasets.load_dataset("somebody/digits", split="train[:10%]")) == 400


def test_data_are_named_as_name_and_ours():
    assert serving.parsed_data(["a/b=cifar10"]) == {"a/b": "cifar10"}
    with pytest.raises(BadOption, match="NAME=OURS"):
        serving.parsed_data(["cifar10"])


def test_the_scale_of_pictures_is_read_off_their_values():
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (20, 2, 16, 16), generator=draw).float() / 255
    mean, std = torch.tensor([0.4, 0.5]).view(2, 1, 1), torch.tensor([0.2, 0.25]).view(2, 1, 1)
    assert scale_of_bytes((pixels - mean) / std) == ((0.4, 0.5), (0.2, 0.25))
    assert scale_of_bytes(pixels) == ((0.0, 0.0), (1.0, 1.0))
    assert scale_of_bytes(torch.randn(20, 1, 16, 16, generator=draw)) is None


class Notes:
    steps = 25


def test_an_epsilon_of_one_round_is_told_to_be_one():
    """Opacus says 1.72 for 25 steps of rate 1/25 and noise 1; there are three such rounds."""
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    for _ in range(25):
        accountant.step(noise_multiplier=1.0, sample_rate=1 / 25)
    claimed = accountant.get_epsilon(1e-5)
    watched = Watched(None, None, notes=[Notes()])
    watched.metrics = [(r, n, {"epsilon": claimed}) for r in (1, 2, 3) for n in (0, 1)]
    verdict, _ = verified(watched, [Mechanism(1.0, 1.0, 1 / 25, True)], 3, 1e-5)
    said = sentence(verdict, 3)
    assert "it is the ε of one round, and there are 3" in said
    assert verdict.low > claimed
    assert verified(Watched(None, None, notes=[Notes()]), [], 3, 1e-5) is None


def test_the_epsilon_of_flowers_own_mod_is_checked_for_all_rounds():
    from flwr.clientapp.mod import LocalDpMod

    with mechanisms() as found:
        LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=0.9, delta=1e-5)
    watched = Watched(None, None, notes=[Notes()])
    watched.metrics = [(r, n, {}) for r in (1, 2, 3, 4) for n in (0, 1)]
    verdict, claimed = verified(watched, found, 4, 1e-5)
    assert claimed == 0.9 and verdict.low > 0.9
    assert "for a client: it is the ε of one round, and there are 4" in sentence(verdict, 4)
    watched.metrics = [(1, 0, {})]
    verdict, _ = verified(watched, found, 1, 1e-5)
    assert verdict.high <= 0.9 and "not refuted" in sentence(verdict, 1)


def test_flowers_older_names_find_what_was_moved(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr.older", None)
    monkeypatch.delitem(sys.modules, "flwr.older")
    serve_moved({"flwr.older": ("flwr.clientapp.typing",)})
    from flwr.clientapp.typing import Mod

    assert sys.modules["flwr.older"].Mod is Mod


def test_a_missing_module_is_one_sentence_with_the_way_out():
    assert "pip install wandb" in lacking("wandb")
    assert "'flwr.gone', which flwr 1" in lacking("flwr.gone")
    assert "another version of flwr" in lacking("flwr.gone")


def test_an_app_that_only_evaluates_is_told_so(tmp_path):
    with pytest.raises(NotSupported, match="no update of a PyTorch model was seen"):
        check_trained(Watched(None, None), tmp_path)
