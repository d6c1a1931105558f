"""The curious server: it sees every reply, changes nothing, and its failures touch nobody."""

import copy
import json
import logging
import random

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedMedian
from torch import nn

from fedpriv.clients.keeping import keep_truth
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.truth import Truth
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.strategies import Curious, Exchange, record_to

# A Flower app as in Flower's own quickstart: nothing in it is fedpriv's.

client = ClientApp()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.fc1 = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        return self.fc1(torch.sigmoid(self.conv1(x)).flatten(1))


@client.train()
def train(msg: Message, context: Context):
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=msg.content["config"]["lr"])
    torch.manual_seed(context.node_config["partition-id"])
    images, labels = torch.rand(1, 1, 8, 8), torch.tensor([context.node_config["partition-id"]])
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"train_loss": 0.0, "num-examples": 1}),
        }
    )
    return Message(content=content, reply_to=msg)


def federation(strategy, rounds=2, clients=3):
    """Run somebody else's app and strategy; the weights at the end."""
    backend = InlineBackend()
    backend.build(lambda: client)
    contexts = {
        node: Context(1, node, {"partition-id": node - 2}, RecordDict(), {})
        for node in range(2, clients + 2)
    }
    grid = SimulationGrid(backend, contexts)
    torch.manual_seed(0)
    random.seed(0)  # Flower samples nodes with it, and a sum depends on the order
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": 0.1}),
        num_rounds=rounds,
    )
    grid.close()
    return result.arrays.to_torch_state_dict()


def plain():
    return FedAvg(fraction_train=1.0, fraction_evaluate=0.0)


@pytest.mark.parametrize("make", [plain, lambda: FedMedian(fraction_evaluate=0.0)])
def test_a_wrapped_strategy_ends_with_the_same_weights(make, tmp_path):
    expected = federation(make())
    found = federation(Curious(make(), record_to(tmp_path)))
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_every_reply_of_every_round_is_recorded_with_what_was_sent(tmp_path):
    federation(Curious(plain(), record_to(tmp_path, input_shape=(1, 8, 8))))
    seen, bad = load_folder(tmp_path)
    assert not bad
    assert [(one.round, one.node) for one in seen] == [(r, n) for r in (1, 2) for n in (2, 3, 4)]
    assert all(one.lr == 0.1 and one.classes == 5 and one.num_examples == 1 for one in seen)
    model = Net()
    model.load_state_dict(seen[0].sent)
    torch.manual_seed(0)
    nn.functional.cross_entropy(model(torch.rand(1, 1, 8, 8)), torch.tensor([0])).backward()
    gradient = seen[0].gradient
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradient[name], parameter.grad, rtol=1e-3, atol=1e-5)


def test_rounds_samples_and_bytes_can_be_limited(tmp_path, caplog):
    federation(Curious(plain(), record_to(tmp_path / "a", rounds=lambda r: r == 2, sample=2)))
    assert [p.stem[:2] for p in (tmp_path / "a").glob("*.json")] == ["2-", "2-"]
    with caplog.at_level(logging.WARNING):
        federation(Curious(plain(), record_to(tmp_path / "b", max_bytes=1)))
    assert len(list((tmp_path / "b").glob("*.json"))) == 1
    assert "no more is kept" in caplog.text


def test_an_observer_that_fails_is_logged_and_training_goes_on(caplog):
    def broken(exchange):
        raise ValueError("disk full")

    expected = federation(plain())
    with caplog.at_level(logging.WARNING):
        found = federation(Curious(plain(), broken))
    assert "disk full" in caplog.text
    assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_a_reply_with_an_error_is_passed_on_unseen():
    seen = []

    class Lenient(FedAvg):
        def aggregate_train(self, server_round, replies):
            self.given = list(replies)
            return None, None

    inner = Lenient()
    curious = Curious(inner, seen.append)
    question = Message(RecordDict(), 7, "train")
    failed = Message(Error(1, "no"), reply_to=question)
    curious.aggregate_train(1, [failed])
    assert inner.given == [failed] and not seen


def test_whatever_else_the_strategy_has_is_still_there():
    curious = Curious(plain(), print)
    assert curious.fraction_train == 1.0 and curious.weighted_by_key == "num-examples"
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = curious.nothing_like_it
    assert copy.copy(curious).inner is curious.inner


def test_a_learning_rate_that_no_message_says_is_announced(tmp_path, caplog):
    recorder = record_to(tmp_path)
    sent = Message(RecordDict({"arrays": ArrayRecord(Net().state_dict())}), 2, "train")
    reply = Message(RecordDict({"arrays": ArrayRecord(Net().state_dict())}), reply_to=sent)
    with caplog.at_level(logging.WARNING):
        recorder(Exchange(1, 2, sent, reply))
    assert "learning rate" in caplog.text
    assert Observation.load(tmp_path / "1-2.safetensors").lr == 1.0


def test_an_own_start_loop_of_the_inner_strategy_is_kept():
    class Own(FedAvg):
        def start(self, grid, initial_arrays, **options):
            return self.configure_train, self.fraction_train

    curious = Curious(Own(fraction_train=0.5), print)
    hook, fraction = curious.start(None, None)
    assert hook == curious.configure_train and fraction == 0.5


def test_what_no_message_says_is_null_on_disk_and_unknown_when_read(tmp_path):
    federation(Curious(plain(), record_to(tmp_path, batch_size=4)), rounds=1)
    path = sorted(tmp_path.glob("*.json"))[0]
    facts = json.loads(path.read_text())
    assert facts["lr"] == 0.1 and facts["batch_size"] == 4  # the message's, and the given one
    nothing = ("optimiser", "local_steps", "momentum", "mean", "std", "mode", "loss", "dropout")
    assert all(facts[name] is None for name in nothing)
    seen = Observation.load(path.with_suffix(".safetensors"))
    assert set(nothing) <= set(seen.unknown) and seen.knows("lr", "batch_size")
    told = seen.told(optimiser="adam", local_steps=3)
    assert told.knows("optimiser", "local_steps") and told.local_steps == 3
    assert not told.knows("momentum")


@pytest.mark.filterwarnings("ignore")
def test_a_strategy_of_the_older_interface_is_refused_with_the_way_out(tmp_path):
    from flwr.server.strategy import FedAvg as OldFedAvg

    with pytest.raises(TypeError, match=r"Message API.*fedpriv audit --app"):
        Curious(OldFedAvg(), record_to(tmp_path))


HUGE = (2**60, 2**60 + 1)  # as Flower's node ids are


def test_the_truth_of_one_s_own_app_is_kept_under_the_names_of_its_evidence(tmp_path):
    mod = keep_truth(tmp_path / "truth")
    watched = ClientApp()
    watched.train(mods=[mod])(train)
    backend = InlineBackend()
    backend.build(lambda: watched)
    contexts = {n: Context(1, n, {"partition-id": n % 2}, RecordDict(), {}) for n in HUGE}
    grid = SimulationGrid(backend, contexts)
    Curious(plain(), record_to(tmp_path / "seen")).start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        train_config=ConfigRecord({"lr": 0.1}),
        num_rounds=2,
    )
    grid.close()
    names = {path.stem for path in (tmp_path / "seen").glob("*.safetensors")}
    assert names == {path.stem for path in (tmp_path / "truth").glob("*.npz")}
    assert len(names) == 4
    truth = Truth.load(tmp_path / "truth" / f"2-{2**60 + 1}.npz")
    assert truth.node == 2**60 + 1 and len(truth.x) == len(truth.y) > 0
