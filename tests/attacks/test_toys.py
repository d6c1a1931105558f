"""Every attack of the catalogue wins on the undefended toy, and is handed no truth."""

import inspect
from dataclasses import fields

import pytest
import torch
from torch import nn

from attacks.catalogue import ATTACKS
from attacks.imprint import Imprinted
from attacks.inversion.attack import Seen
from fedpriv.observation import Observation
from fedpriv.victims import Victims

from .conftest import CLASSES, observe, pictures, psnr, weighted

# name -> options that make it short, and the PSNR it must reach on the worst of three pictures
SHORT = {
    "dlg": ({"steps": 200}, 30),
    "idlg": ({"steps": 150, "restarts": 1}, 30),
    "quick": ({"steps": 150, "tv": 1e-3}, 20),
    "lbfgs+l2": ({"steps": 120, "restarts": 2}, 25),
    "lbfgs+cosine": ({"steps": 120, "restarts": 2}, 20),
    "adam+cosine": ({"steps": 300}, 20),
    "adam+l2": ({"steps": 300}, 20),
    "adam+l1": ({"steps": 300}, 20),
    "sgd+cosine": ({"steps": 300, "lr": 0.01}, 14),
    "fedavg-replay": ({"steps": 150, "tv": 1e-3}, 20),
    "grad-inversion": ({"steps": 300, "restarts": 2, "tv": 1e-4}, 18),
    "pruning-aware": ({"steps": 150, "tv": 1e-3}, 20),
    "noise-aware": ({"steps": 150, "tv": 1e-3}, 20),
    "policy-aware": ({"steps": 150, "tv": 1e-3, "policy": "20"}, 14),
    "spn-aware": ({"steps": 100, "joint-steps": 100}, 20),
    "recursive": ({}, 30),
}


@pytest.mark.parametrize("name", SHORT)
def test_it_wins_on_the_undefended_toy(name, seen):
    observations, x, y = seen
    options, least = SHORT[name]
    found = ATTACKS.build(name, options)(observations)
    assert found.x.shape == (3, 1, *x.shape[1:])
    assert psnr(found.pixels[:, 0], x).min() > least
    assert found.labels[:, 0].tolist() == y.tolist()
    assert found.names == ("0-0", "0-1", "0-2")


def test_the_linear_system_is_solved_exactly():
    x, y = pictures(2)
    net = weighted(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, CLASSES))
    )
    found = ATTACKS.build("linear")(observe(net, x, y))
    assert psnr(found.pixels[:, 0], x).min() > 60


def test_the_imprint_is_read_out():
    x, y = pictures(4)
    inner = weighted(nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES)))
    net = Imprinted(inner, (1, 8, 8), bins=200, mean=0.5, spread=0.15).eval()
    found = ATTACKS.build("imprint")(observe(net, x, y, batch=4))
    apart = (found.pixels[0].unsqueeze(1) - x).square().flatten(2).mean(2)
    assert (apart.amin(0) < 1e-5).sum() >= 3  # two pictures may share a bin


def test_all_rows_are_tested_here():
    assert set(SHORT) | {"linear", "imprint"} == set(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_takes_the_truth(name):
    words = {"truth", "original", "x", "private", "target"}
    assert not words & set(inspect.signature(ATTACKS[name].build).parameters)
    for known in (Observation, Victims):
        assert not words & {field.name for field in fields(known)}
    assert Seen is not None


def test_an_attack_reads_only_the_observation(seen, monkeypatch):
    observations, _, _ = seen
    first = ATTACKS.build("idlg", {"steps": 5})(observations)
    for parameter in observations[0].model.parameters():  # the model's own weights are never used
        parameter.data.zero_()
    again = ATTACKS.build("idlg", {"steps": 5})(observations)
    assert torch.equal(first.x, again.x)
