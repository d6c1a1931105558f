"""Policies attacked with the search's own model, and what their scores foretell."""

import csv

import numpy as np
import pytest
import torch
import typer
from torch import nn
from typer.testing import CliRunner

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.catalogue import DATASETS
from fedpriv.engine.gradients import gradient_of
from fedpriv.errors import BadOption
from fedpriv.policies import Policy
from fedpriv.rng import generator
from fedpriv.simulations.cli.search import search as command
from fedpriv.simulations.search.correlation import attacked, correlation, observed
from fedpriv.simulations.search.layers import by_layer, layers, similarities
from fedpriv.simulations.search.search import Places


@pytest.fixture(scope="module")
def data():
    return DATASETS.build("synthetic", {"test": 12, "noise": 0.02}, root=None)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 12), nn.Sigmoid(), nn.Linear(12, 4)).eval()


def test_an_observation_holds_the_gradient_of_one_sample(data, model):
    x, y = data.normalised(data.x_test[:3]), data.y_test[:3]
    for row, seen in enumerate(observed(model, data, x, y)):
        wanted = gradient_of(model, x[row : row + 1], y[row : row + 1])
        for name, value in seen.gradient.items():
            assert torch.allclose(value, wanted[name], atol=1e-6)


def test_the_guess_is_compared_with_both_pictures(data, model):
    found = attacked({"none": 0.5, "0": 0.4}, model, data, "linear", images=2)
    plain, inverted = found
    assert plain.psnr_trained == pytest.approx(plain.psnr) and plain.psnr > 30
    assert inverted.psnr_trained > 30 and inverted.psnr < 20  # it finds what was trained on


def test_correlation_with_its_interval():
    x = np.linspace(0, 1, 30)
    noise = torch.randn(30, generator=generator(1)).numpy()
    found = correlation(x, 3 * x + 0.3 * noise)
    assert found.low < found.r < found.high and found.low > 0.5
    assert found.r == pytest.approx(np.corrcoef(x, 3 * x + 0.3 * noise)[0, 1])
    none = correlation(x, noise)
    assert none.low < 0 < none.high
    assert np.isnan(correlation([1, 1, 1], [1, 2, 3]).r)


def test_layers_come_nearer_to_the_observed_gradient_as_the_attack_goes_on(data, model):
    attack = ATTACKS.build("quick", {"steps": 40})
    found = similarities({"none": Policy()}, model, data, attack, images=3)["none"]
    assert found.shape == (41, 2)  # steps and the last look, by the weights of two linear layers
    assert (found[-1] > found[0] + 0.1).any() and found.max() <= 1 + 1e-5


def test_similarity_by_layer_is_each_layers_own_cosine():
    target = {"w": torch.tensor([[[3.0, 4.0]]]), "b": torch.ones(1, 2), "v": torch.ones(1, 1, 2)}
    found = {"w": torch.tensor([[[4.0, 3.0]]]), "b": torch.ones(1, 2), "v": -torch.ones(1, 1, 2)}
    assert layers(target) == ["w", "v"]
    assert by_layer(found, target).tolist() == pytest.approx([24 / 25, -1])


def test_the_command_says_whether_the_score_foretells_the_attack(tmp_path):
    app, out = typer.Typer(), tmp_path / "policies.json"
    app.command()(command)
    words = "--data synthetic --model mlp --images 4 --rounds 1 --epochs 0 --points 2 --keep 2"
    words += " --candidates 6 --verify quick --attacked 2"
    ran = CliRunner().invoke(app, [*words.split(), "--verified", "4", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "S_pri and PSNR of quick: r = " in ran.stdout
    assert len(Places(out).verified.read_text().splitlines()) == 5
    assert Places(out).verified.with_suffix(".png").exists()
    with Places(out).layers.open() as file:
        rows = list(csv.DictReader(file))
    assert [row.split(",")[0] for row in dict.fromkeys(row["policy"] for row in rows)] == [
        "none",
        "random",
        "searched",
    ]
    assert Places(out).layers.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert str(Places(out).layers) in ran.stdout
    few = CliRunner().invoke(app, [*words.split(), "--verified", "2", "--out", str(out)])
    assert isinstance(few.exception, BadOption)
