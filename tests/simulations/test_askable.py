"""Findings on candidates and models, and questions about what clients hold."""

import pytest
import torch
from rich.console import Console

from fedpriv.attacks.inference.properties import PropertyRate
from fedpriv.attacks.inference.series import Series
from fedpriv.attacks.inference.shadow_clients import trained
from fedpriv.data.npz import npz, write_npz
from fedpriv.errors import BadData, BadInput
from fedpriv.evidence.claims import Public
from fedpriv.evidence.inferences import Rates
from fedpriv.evidence.observation import Observation
from fedpriv.models.mlp import mlp
from fedpriv.rng import generator
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.askable import of_counts, of_model
from fedpriv.simulations.judging.judge import judged
from fedpriv.state import state_of

TINY = {
    "name": "askable",
    "seed": 3,
    "keep-truth": "numbers",
    "data": {
        "name": "synthetic",
        "partition": "dirichlet",
        "alpha": 0.5,
        "reserve": 400,
        "options": {"train": 1000, "test": 200, "size": 8, "classes": 4},
    },
    "model": {"name": "mlp", "hidden": [16]},
    "training": {"lr": 0.1, "batch-size": 20},
    "federation": {"clients": 6, "rounds": 2, "backend": "inline"},
    "inference": {"candidates": 100},
}


def test_class_shares_beat_a_blind_guess_after_an_epoch_and_after_a_step(tmp_path):
    for name, training in (("epoch", {}), ("step", {"local-steps": 1})):
        tables = {**TINY, "training": {**TINY["training"], **training}}
        scenario = from_tables({**tables, "attacks": [{"name": "class-shares"}]})
        folder = RunFolder(tmp_path / name)
        simulate(scenario, folder, PlainLines(Console(quiet=True)))
        rows = judged(folder, scenario).rows
        assert len(rows) == 6
        error = sum(row["class-share-error"] for row in rows) / 6
        blind = sum(row["class-share-error-blind"] for row in rows) / 6
        assert error < 0.25 * blind, name


def test_few_candidates_are_a_finding(tmp_path):
    tables = {**TINY, "attacks": [{"name": "member-loss"}]}
    scenario, folder = from_tables(tables), RunFolder(tmp_path / "run")
    simulate(scenario, folder, PlainLines(Console(quiet=True)))
    causes = {finding["cause"] for finding in judged(folder, scenario).findings}
    assert "few candidates" in causes


def test_findings_on_counts_and_models():
    assert of_counts(500, 1000) == []
    assert of_counts(500, 500)[0]["severity"] == "note"
    assert of_counts(50, 50)[0]["severity"] == "warning"
    scenario = from_tables(TINY)
    assert of_model(scenario, 0.995)[0]["cause"] == "converged model"
    assert of_model(scenario, 0.8) == []
    assert of_model(scenario, 0.26)[0]["cause"] == "untrained model"


def own_samples():
    """Pictures whose attribute is a bright corner, which has nothing to do with the label."""
    stream = generator(0, "own")
    y = torch.arange(400) % 3
    has = torch.rand(400, generator=stream) < 0.5
    x = torch.randn(400, 1, 4, 4, generator=stream)
    x[:, 0, 0, 0] += 3 * y
    x[has, 0, 3, 3] += 4
    return Public(x, y, {"bright": has.long()})


def test_the_rate_of_an_attribute_is_read_from_updates():
    own, model = own_samples(), mlp(channels=1, size=4, classes=3, hidden=(8,))
    sent, has = state_of(model), own.attributes["bright"] == 1
    facts = {"classes": 3, "input_shape": (1, 4, 4), "lr": 0.1, "local_steps": 5, "batch_size": 20}
    seen, rates = [], (0.1, 0.5, 0.9)
    for node, rate in enumerate(rates):
        stream = generator(node, "victim")
        wants = torch.rand(100, generator=stream) < rate
        pools = {side: (has == side).nonzero().flatten() for side in (False, True)}
        places = torch.stack(
            [
                pools[bool(want)][torch.randint(len(pools[bool(want)]), (1,), generator=stream)][0]
                for want in wants
            ]
        )
        like = Observation(sent=sent, received=sent, num_examples=100, **facts).on(model)
        update = trained(like, own.x[places], own.y[places], stream)
        received = {key: value + update.get(key, 0) for key, value in sent.items()}
        seen.append(
            Observation(
                sent=sent, received=received, num_examples=100, round=1, node=node, **facts
            ).on(model)
        )
    found = PropertyRate(own)(Series(tuple(seen)))
    assert all(isinstance(one, Rates) and one.attribute == "bright" for one in found)
    for one, rate in zip(found, rates, strict=True):
        assert abs(float(one.rate[0]) - rate) < 0.2
    with pytest.raises(BadInput, match="no attribute 'age'"):
        PropertyRate(own, attribute="age")(Series(tuple(seen)))


def test_samples_in_a_file_come_back_with_their_clients(tmp_path):
    dataset = dataset_of(from_tables(TINY))
    path = write_npz(tmp_path / "own.npz", dataset)
    found = npz(str(path))
    assert torch.equal(found.x_train, dataset.x_train) and found.classes == 4
    with pytest.raises(BadData, match="holds no samples"):
        npz(str(tmp_path / "other.npz"))
