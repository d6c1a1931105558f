"""The truth: what a client used stays on its own disk, and only where it is asked for."""

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from messages import answered, ask, context_of
from torch.nn.functional import cross_entropy

from fedpriv.codes.parties import holding_of
from fedpriv.data.synthetic import synthetic
from fedpriv.evidence.truth import Truth
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state, loaded, model_of, training_samples


def asked(tiny, folder, plugins=(), attacks=({"name": "dlg"},), keep=None, server_round=1, lr=0.5):
    tables = tiny.plain() | {
        "plugins": list(plugins),
        "attacks": list(attacks),
        "training": {"lr": lr, "batch-size": 3, "local-steps": 1},
    }
    scenario = from_tables(tables if keep is None else tables | {"keep-truth": keep})
    context = context_of(scenario, 1, truth_folder=folder and str(folder))
    return scenario, answered(ask(scenario, context, server_round=server_round))


def test_the_truth_explains_the_update(tiny, tmp_path):
    scenario, received = asked(tiny, tmp_path)
    truth = Truth.load(tmp_path / "1-1.npz")
    model = loaded(model_of(scenario), first_state(scenario))
    cross_entropy(model(truth.x), truth.y).backward()
    start = first_state(scenario)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(received[name], start[name] - 0.5 * parameter.grad)
    assert len(truth.x) == 3 and truth.added == 0 and truth.clean > 0
    assert torch.equal(truth.x, truth.trained)


@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_the_added_norm_is_that_of_the_noise(tiny, tmp_path, scale):
    _, received = asked(tiny, tmp_path, [{"name": "noise", "scale": scale}])
    truth = Truth.load(tmp_path / "1-1.npz")
    count = sum(value.numel() for value in received.values())
    assert truth.added == pytest.approx(0.5 * scale * count**0.5, rel=0.05)
    biases = sum(value.numel() for key, value in received.items() if key.endswith("bias"))
    assert truth.added_biases == pytest.approx(0.5 * scale * biases**0.5, rel=0.5)
    assert 0 < truth.clean_biases < truth.clean
    asked(tiny, tmp_path / "clean")
    assert truth.clean == pytest.approx(Truth.load(tmp_path / "clean" / "1-1.npz").clean)


def test_polarization_adds_more_the_more_it_weighs(tiny, tmp_path):
    ratios = []
    for alpha2 in (0.0, 0.01, 0.5):
        asked(tiny, tmp_path / str(alpha2), [{"name": "spn", "alpha2": alpha2}])
        truth = Truth.load(tmp_path / str(alpha2) / "1-1.npz")
        ratios.append(truth.added / truth.clean)
    assert ratios[0] == 0 and 0 < ratios[1] < ratios[2]


def test_nothing_is_written_without_a_folder_or_unless_asked(tiny, tmp_path):
    asked(tiny, tmp_path, attacks=(), keep=None)
    asked(tiny, tmp_path, keep=False)
    asked(tiny, tmp_path, attacks=({"name": "dlg", "rounds": [2]},), server_round=1)
    assert not list(tmp_path.iterdir())


def test_keeping_the_truth_changes_no_answer(tiny, tmp_path):
    plugins = [{"name": "spn", "alpha2": 0.3}]
    _, kept = asked(tiny, tmp_path, plugins)
    _, alone = asked(tiny, None, plugins)
    assert all(torch.equal(kept[key], alone[key]) for key in alone)


def test_the_truth_is_for_its_owner_only(tiny, tmp_path):
    asked(tiny, tmp_path)
    assert (tmp_path / "1-1.npz").stat().st_mode & 0o077 == 0


def test_a_client_that_drew_no_sample_answers_and_has_nothing_to_keep(tiny, tmp_path, monkeypatch):
    nobody = [torch.empty(0, dtype=torch.long)]
    monkeypatch.setattr(
        "fedpriv.clients.plugins.differential_privacy.poisson",
        lambda rate, steps: lambda job: nobody,
    )
    asked(tiny, tmp_path, [{"name": "dp", "noise-multiplier": 1.0}])
    assert list(tmp_path.iterdir()) == []


def faces(root=None):
    """Pictures whose persons have a second attribute: whether the label is odd."""
    known = synthetic(train=60, test=20, size=6)
    return replace(known, attributes={"odd": (known.y_train % 2, known.y_test % 2)})


@pytest.fixture
def codes(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "house", SimpleNamespace(faces=faces))
    table = {"options": {"hidden": [16], "code": 6}, "encoder-epochs": 1, "decoder-epochs": 1}

    def scenario_of(strategy="representation", **more):
        tables = {
            "keep-truth": True,
            "data": {"name": "house:faces"},
            "federation": {"clients": 3, "strategy": strategy},
            "representation": {**table, "tasks": ["odd", "label"]},
        }
        return from_tables(merged(merged(tiny.plain(), tables), more))

    return scenario_of


def shared(scenario, folder, kind="query.codes", partition=1):
    context = context_of(scenario, partition, truth_folder=folder and str(folder))
    encoder = answered(ask(scenario, context_of(scenario), kind="train.encoder"))
    return answered(ask(scenario, context, encoder, kind=kind))


def test_a_party_that_shares_codes_keeps_what_they_were_made_of(codes, tmp_path):
    scenario = codes()
    sent, held = shared(scenario, tmp_path), holding_of(scenario, 1)
    truth = Truth.load(tmp_path / "1-1.npz")
    assert torch.equal(truth.x, held.x) and torch.equal(truth.trained, held.x)
    assert torch.equal(truth.indices, held.ids) and len(truth.x) == len(sent["z"])
    assert set(truth.attributes) == {"label", "odd"}
    assert torch.equal(truth.attributes["odd"], truth.attributes["label"] % 2)
    assert torch.equal(truth.y, truth.attributes["odd"]) and torch.equal(truth.y, sent["y"][:, 0])
    assert math.isnan(truth.clean) and math.isnan(truth.added) and not truth.secrets


def test_the_mask_is_in_the_truth_and_the_codes_changed_only_there(codes, tmp_path):
    plain = shared(codes(), None)
    ars = [{"name": "ars", "epsilon": 0.5}]
    noisy = shared(codes(plugins=ars), tmp_path)
    mask = Truth.load(tmp_path / "1-1.npz").secrets["mask"]
    change = (noisy["z"] - plain["z"]).abs().amax(dim=0)
    assert 0 < mask.sum() < len(mask) and torch.equal(change > 0, mask > 0)
    shared(codes(plugins=[{**ars[0], "share": 1.0}]), tmp_path / "whole")
    assert not Truth.load(tmp_path / "whole" / "1-1.npz").secrets


def test_a_party_of_columns_keeps_its_columns_and_the_labels_it_has_not(codes, tmp_path):
    data = {"name": "synthetic", "options": {"kind": "table", "size": 9, "train": 90}}
    scenario = codes(
        "vertical", data=data, representation={"curious-samples": 20, "tasks": ["label"]}
    )
    context = context_of(scenario, 2, truth_folder=str(tmp_path))
    sent = answered(ask(scenario, context, {}, kind="train.columns"))
    truth, held = Truth.load(tmp_path / "1-2.npz"), holding_of(scenario, 2)
    assert torch.equal(truth.x, held.x) and torch.equal(truth.indices, sent["ids"])
    assert "y" not in sent and torch.equal(truth.y, training_samples(scenario)[1][held.ids])


def test_no_truth_of_codes_is_kept_unless_asked(codes, tmp_path):
    shared(codes(**{"keep-truth": False}), tmp_path)
    shared(codes(), None)
    assert not list(tmp_path.iterdir())
