"""Observations: what is kept, what is refused, and files that nobody can trust."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedpriv.errors import BadInput, BadObservation
from fedpriv.evidence.claims import Reconstruction, load_claim
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import alike, stack
from fedpriv.state import state_of


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


@pytest.fixture
def seen(net):
    sent = state_of(net)
    received = {k: v + 0.5 if v.is_floating_point() else v + 1 for k, v in sent.items()}
    return Observation(
        sent=sent,
        received=received,
        classes=2,
        input_shape=(4,),
        lr=0.5,
        mean=(0.1,),
        std=(0.2,),
        round=3,
        node=12,
    )


def test_saved_and_loaded_it_is_the_same(seen, tmp_path):
    path = seen.save(tmp_path)
    assert path.name == "3-12.safetensors"
    assert {p.name for p in tmp_path.iterdir()} == {"3-12.safetensors", "3-12.json"}
    again = Observation.load(path)
    assert again.facts == seen.facts
    for name in ("sent", "received"):
        assert getattr(again, name).keys() == getattr(seen, name).keys()
        for key, value in getattr(seen, name).items():
            assert torch.equal(getattr(again, name)[key], value)


def test_no_fact_is_a_truth(seen):
    assert not {"x", "y", "labels", "truth", "samples"} & seen.facts.keys()


def test_delta_leaves_counters_out(seen):
    assert "1.num_batches_tracked" not in seen.delta
    assert all(torch.allclose(value, torch.tensor(0.5)) for value in seen.delta.values())


def test_the_gradient_of_one_sgd_step_is_exact(net):
    sent = state_of(net)
    gradient = {k: torch.randn_like(v) for k, v in net.named_parameters()}
    decay, lr = 0.1, 0.3
    received = {
        k: v.double() - lr * (gradient[k].double() + decay * v) if k in gradient else v
        for k, v in sent.items()
    }
    seen = Observation(
        sent=sent,
        received=received,
        classes=2,
        input_shape=(4,),
        lr=lr,
        weight_decay=decay,
        momentum=0.9,
    )
    for key, value in gradient.items():
        torch.testing.assert_close(seen.gradient[key], value.detach())


def test_a_folder_with_bad_files_gives_the_good_ones(seen, tmp_path):
    for node in (10, 9):
        replace(seen, node=node).save(tmp_path)
    (tmp_path / "4-1.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not a header")
    replace(seen, node=2).save(tmp_path)
    (tmp_path / "3-2.json").unlink()
    replace(seen, node=3).save(tmp_path)
    (tmp_path / "3-3.json").write_text(json.dumps({"secret": 1}))
    broken = {k: v * float("nan") if v.is_floating_point() else v for k, v in seen.sent.items()}
    replace(seen, node=4, received=broken).save(tmp_path)
    cut = replace(seen, node=5).save(tmp_path)
    cut.write_bytes(cut.read_bytes()[:-40])
    good, bad = load_folder(tmp_path)
    assert [one.node for one in good] == [9, 10]
    assert {path.stem for path, _ in bad} == {"4-1", "3-2", "3-3", "3-4", "3-5"}
    assert all(isinstance(error, BadObservation) for _, error in bad)


def test_no_folder(tmp_path):
    with pytest.raises(BadObservation, match="no folder"):
        load_folder(tmp_path / "nowhere")


def test_a_model_that_does_not_fit(seen):
    with pytest.raises(BadObservation, match=r"lacks '3\.bias'"):
        seen.on(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2), nn.Linear(2, 2)))
    with pytest.raises(BadObservation, match="unknown to the model"):
        seen.on(nn.Sequential(nn.Linear(4, 3)))
    with pytest.raises(BadObservation, match=r"is \(2, 3\), the model's is \(5, 3\)"):
        seen.on(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 5)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lr": 0.0}, "lr must be above 0"),
        ({"local_steps": 0}, "local_steps must be at least 1"),
        ({"mode": "test"}, "mode must be"),
        ({"std": ()}, "channels"),
        ({"received": {}}, "sent and received differ"),
    ],
)
def test_impossible_facts(seen, change, words):
    with pytest.raises(BadObservation, match=words):
        replace(seen, **change)


def test_shapes_must_agree(seen):
    received = {**seen.received, "0.bias": torch.zeros(7)}
    with pytest.raises(BadObservation, match=r"'0\.bias' was sent as \(3,\)"):
        replace(seen, received=received)


def test_stacking_needs_a_model_and_equal_facts(seen, net):
    with pytest.raises(BadObservation, match="has no model"):
        stack([seen])
    with pytest.raises(BadObservation, match="empty"):
        stack([])
    one, other = seen.on(net), replace(seen.on(net), lr=0.1, node=2)
    with pytest.raises(BadObservation, match="differ in lr"):
        stack([one, other])
    assert [len(group) for group in alike([one, other, one])] == [2, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": "mse"}, "attacks know 'cross-entropy'"),
        ({"input_shape": (5,)}, r"does not take inputs of the recorded shape \(5,\)"),
        ({"classes": 3}, r"outputs of shape \(2,\) where 3-12 has 3 classes"),
    ],
)
def test_a_model_that_does_something_else(seen, net, change, words):
    with pytest.raises(BadObservation, match=words):
        stack([replace(seen.on(net), **change)])


def test_a_reconstruction_survives_its_file(tmp_path):
    found = Reconstruction(
        x=torch.rand(2, 1, 3, 4, 4),
        labels=torch.tensor([[1], [0]]),
        loss=torch.rand(2),
        seconds=1.5,
        names=("1-0", "1-1"),
        mean=(0.5, 0.5, 0.5),
        std=(0.2, 0.2, 0.2),
        extra={"steps": 3},
    )
    again = load_claim(found.save(tmp_path / "a" / "1-0.npz"))
    assert torch.equal(again.pixels, found.pixels)
    assert (again.names, again.extra, again.seconds) == (found.names, {"steps": 3}, 1.5)
    assert float(found.pixels.min()) >= 0
    assert float(found.pixels.max()) <= 1
    assert found.of(1).names == ("1-1",)


def test_a_foreign_npz(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(BadInput, match="no claim"):
        load_claim(path)
