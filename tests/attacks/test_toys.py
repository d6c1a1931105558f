"""Every attack of the catalogue wins on the undefended toy, and is handed no truth."""

import inspect
from dataclasses import fields

import pytest
import torch
from torch import nn

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import Seen
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims

from .conftest import CLASSES, observe, pictures, psnr, weighted

# name -> options that make it short, and the PSNR it must reach on the worst of three pictures
SHORT = {
    "dlg": ({"steps": 100}, 25),
    "idlg": ({"steps": 80, "restarts": 1}, 25),
    "quick": ({"steps": 100, "tv": 1e-3}, 18),
    "strongest": ({"steps": 100, "polish": 100}, 20),
    "lbfgs+l2": ({"steps": 80, "restarts": 2}, 20),
    "lbfgs+cosine": ({"steps": 80, "restarts": 2}, 18),
    "adam+cosine": ({"steps": 120}, 18),
    "adam+l2": ({"steps": 120}, 18),
    "adam+l1": ({"steps": 120}, 18),
    "sgd+cosine": ({"steps": 120, "lr": 0.01}, 12),
    "fedavg-replay": ({"steps": 100, "tv": 1e-3}, 18),
    "grad-inversion": ({"steps": 120, "restarts": 2, "tv": 1e-4}, 15),
    "pruning-aware": ({"steps": 100, "tv": 1e-3}, 18),
    "noise-aware": ({"steps": 100, "tv": 1e-3}, 18),
    "policy-aware": ({"steps": 40, "tv": 1e-3, "policy": "20"}, 12),
    "spn-aware": ({"steps": 80, "joint-steps": 60}, 20),
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


@pytest.mark.parametrize("name", ["read-bins", "read-rows"])
def test_planted_rows_are_read_out(name):
    x, y = pictures(1)
    net = weighted(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, CLASSES))
    )
    found = ATTACKS.build(name)(observe(net, x, y))
    assert psnr(found.pixels[:, 0], x).min() > 60


def test_all_rows_are_tested_here():
    """Rows that look at all rounds at once, or learn, have files of their own."""
    assert set(SHORT) | {"linear", "read-bins", "read-rows", "learned"} == {
        name for name, row in ATTACKS.items() if row.sees == "update" and not row.whole
    }


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
