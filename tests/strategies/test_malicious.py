"""Malicious servers: what they plant singles samples out, and nobody but the victims notices."""

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from torch.nn.functional import cross_entropy

from fedpriv.attacks.analytic.readout import read_bins, read_rows
from fedpriv.errors import BadOption, BadScenario
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.matching import assignment
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import (
    dataset_of,
    first_state,
    loaded,
    model_of,
    training_samples,
)
from fedpriv.scenario.built import test_samples as server_samples
from fedpriv.strategies.malicious.catalogue import MALICIOUS, malicious_of
from fedpriv.strategies.malicious.wrapper import Known, Malicious
from fedpriv.strategies.roster import Roster
from fedpriv.wire import record_of, state_in

LR, BATCH = 0.1, 8


def scenario_of(**model):
    return from_tables(
        {"seed": 3, "data": {"name": "synthetic"}, "model": {"name": "mlp", **model}}
    )


def known_of(scenario):
    x, y = server_samples(scenario)
    return Known(model_of(scenario), x, y, dataset_of(scenario).classes)


def planted(scenario, name, **options):
    return MALICIOUS.build(name, options)(first_state(scenario), known_of(scenario))


def gradient(scenario, state, x, y):
    model = loaded(model_of(scenario), state)
    cross_entropy(model(x), y).backward()
    return {key: value.grad for key, value in model.named_parameters()}


def observed(scenario, state, x, y):
    """The server's view of one step on a batch."""
    dataset = dataset_of(scenario)
    received = {k: state[k] - LR * g for k, g in gradient(scenario, state, x, y).items()}
    return Observation(
        sent=state,
        received=received,
        classes=dataset.classes,
        input_shape=dataset.shape,
        lr=LR,
        batch_size=len(x),
        num_examples=len(x),
        mean=tuple(dataset.mean),
        std=tuple(dataset.std),
    ).on(model_of(scenario))


def psnr(scenario, found, x):
    """(B,): of each guess and the sample it is nearest to, and which sample that is."""
    guess, real = found.pixels[0], dataset_of(scenario).denormalised(x)
    g, t = assignment(guess, real)
    error = (guess[g] - real[t]).square().flatten(1).mean(1)
    return -10 * error.clamp(min=1e-12).log10(), g, t


def batch(scenario, count=BATCH):
    x, y = training_samples(scenario)
    return x[:count], y[:count]


@pytest.mark.parametrize(
    ("name", "read", "share"), [("imprint", read_bins, 0.6), ("trap-weights", read_rows, 0.5)]
)
def test_a_planted_linear_layer_gives_most_of_the_batch_exactly(name, read, share):
    scenario = scenario_of()
    x, y = batch(scenario)
    options = {"batch": BATCH} if name == "trap-weights" else {}
    found = read()(observed(scenario, planted(scenario, name, **options), x, y))
    values, g, t = psnr(scenario, found, x)
    good = values > 40
    assert good.float().mean() >= share
    assert (found.labels[0][g] == y[t])[good].float().mean() > 0.8


def test_honest_weights_give_nothing_of_the_kind():
    scenario = scenario_of()
    x, y = batch(scenario)
    values, _, _ = psnr(scenario, read_bins()(observed(scenario, first_state(scenario), x, y)), x)
    assert (values > 40).float().mean() < 0.2


def test_convolutions_are_opened_and_solved_for_the_image():
    scenario = from_tables({"seed": 3, "data": {"name": "synthetic"}, "model": {"name": "lenet"}})
    x, y = batch(scenario, 4)
    found = read_bins()(observed(scenario, planted(scenario, "imprint"), x, y))
    assert psnr(scenario, found, x)[0].max() > 20


def test_class_fishing_silences_all_other_classes():
    scenario = scenario_of()
    x, y = training_samples(scenario)
    state = planted(scenario, "class-fishing", target=1)
    others = gradient(scenario, state, x[y != 1][:8], y[y != 1][:8])["1.weight"]
    one = gradient(scenario, state, x[y == 1][:1], y[y == 1][:1])["1.weight"]
    assert others.norm() < 1e-4 * one.norm()
    mixed = torch.cat([x[y != 1][:7], x[y == 1][:1]])
    labels = torch.cat([y[y != 1][:7], y[y == 1][:1]])
    values, _, t = psnr(scenario, read_rows()(observed(scenario, state, mixed, labels)), mixed)
    assert values[t == 7] > 40


def test_feature_fishing_silences_typical_samples_of_the_class_too():
    scenario = scenario_of()
    x, y = training_samples(scenario)
    state = planted(scenario, "feature-fishing", target=1, group=4, steepness=1000.0)
    own = x[y == 1][:40]
    norms = torch.stack(
        [
            gradient(scenario, state, own[i : i + 1], torch.tensor([1]))["1.weight"].norm()
            for i in range(len(own))
        ]
    )
    loud = (norms > 0.05 * norms.max()).float().mean()
    assert 0 < loud < 0.6


def test_loss_scaling_is_louder_and_changes_no_prediction():
    scenario = scenario_of()
    x, y = batch(scenario)
    state, loud = first_state(scenario), planted(scenario, "loss-scaling", factor=20.0)
    before, after = (loaded(model_of(scenario), s)(x).argmax(1) for s in (state, loud))
    assert torch.equal(before, after)
    quiet = gradient(scenario, state, x, y)["1.weight"].norm()
    assert gradient(scenario, loud, x, y)["1.weight"].norm() > 5 * quiet


@pytest.mark.parametrize("name", MALICIOUS)
def test_only_values_change(name):
    scenario = scenario_of()
    state = first_state(scenario)
    changed = planted(scenario, name)
    assert {k: (v.shape, v.dtype) for k, v in changed.items()} == {
        k: (v.shape, v.dtype) for k, v in state.items()
    }
    assert any(not torch.equal(changed[k], state[k]) for k in state)
    assert all(torch.equal(v, first_state(scenario)[k]) for k, v in state.items())


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"name": "mlp", "hidden": []}, "needs a linear layer before the last one"),
        ({"name": "mlp", "activation": "sigmoid"}, "needs a ReLU"),
        ({"name": "resnet20"}, "this model has 1"),
    ],
)
def test_a_model_it_cannot_be_planted_in_is_refused(model, says):
    scenario = from_tables({"data": {"name": "synthetic"}, "model": model})
    with pytest.raises(BadOption, match=says):
        planted(scenario, "imprint")


class Sender(FedAvg):
    """Flower's own FedAvg that sends to two nodes without a grid."""

    def configure_train(self, server_round, arrays, config, grid):
        record = RecordDict({"arrays": arrays, "config": config})
        return [Message(record, node, "train") for node in (2, 3)]


def answer(node, value):
    content = RecordDict(
        {
            "arrays": ArrayRecord({"w": ArrayRecord({"w": torch.tensor([value])})["w"]}),
            "metrics": MetricRecord({"num-examples": 1}),
        }
    )
    message = Message(content, node, "train")
    message.metadata.__dict__["_src_node_id"] = node
    return message


def malicious(**options):
    return Malicious(Sender(), lambda state, known: {"w": state["w"] + 100}, known=None, **options)


def sent(strategy, server_round):
    arrays = record_of({"w": torch.tensor([1.0])})
    messages = strategy.configure_train(server_round, arrays, ConfigRecord(), None)
    return {m.metadata.dst_node_id: state_in(m.content["arrays"])["w"].item() for m in messages}


def test_it_begins_at_its_round_and_touches_its_victims_only():
    strategy = malicious(from_round=2, victims=(3,))
    assert sent(strategy, 1) == {2: 1.0, 3: 1.0}
    assert sent(strategy, 2) == {2: 1.0, 3: 101.0}


def test_the_victims_answers_do_not_enter_the_mean():
    strategy = malicious(victims=(3,))
    sent(strategy, 1)
    arrays, _ = strategy.aggregate_train(1, [answer(2, 5.0), answer(3, 99.0)])
    assert state_in(arrays)["w"].item() == 5.0


def test_with_victims_only_the_model_stays_as_it_is():
    strategy = malicious()
    sent(strategy, 1)
    arrays, metrics = strategy.aggregate_train(1, [answer(2, 5.0), answer(3, 99.0)])
    assert state_in(arrays)["w"].item() == 1.0 and metrics is not None


def test_victims_must_be_partitions():
    planted = {"name": "imprint", "victims": "all"}
    with pytest.raises(BadScenario, match="'victims' must be a list of whole numbers, got 'all'"):
        from_tables({"data": {"name": "synthetic"}, "malicious": planted})
    scenario = from_tables(
        {"data": {"name": "synthetic"}, "malicious": {"name": "imprint", "victims": [99]}}
    )
    with pytest.raises(BadScenario, match="there is no client 99 to attack"):
        malicious_of(scenario, Sender(), Roster(2))
