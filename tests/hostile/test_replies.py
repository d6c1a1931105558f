"""Odd replies: one client sends another one every round; no run ends, and each is named."""

import json
import logging

import odd_replies
import pytest
import torch
from enemy import ODD, enemy, lines, rounds_of, run_of, world
from flwr.app import Message, RecordDict

from fedpriv.clients.app import app as honest
from fedpriv.errors import WorkFailed
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.grid import SimulationGrid


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return rounds_of(odd_replies.TRAINING)


@pytest.mark.parametrize("kind", odd_replies.TRAINING)
def test_an_odd_training_reply_is_named_and_left_out(trained, kind):
    record = trained[1][kind]
    (why,) = lines(record)
    assert odd_replies.TRAINING[kind][1] in why
    assert record["clients"] == 2 and [f["client"] for f in record["failed"]] == [ODD]
    assert why.isprintable() and len(why) < 500
    assert len(json.dumps(record, allow_nan=False)) < 2000


def test_odd_replies_leave_no_trace_in_the_model(trained):
    refusing = dict.fromkeys(odd_replies.TRAINING, odd_replies.FIGURES["an error"])
    expected, _ = rounds_of(refusing)
    assert all(torch.equal(trained[0][key], expected[key]) for key in expected)


def test_a_curious_server_records_what_is_fit_and_goes_on(tmp_path):
    scenario = from_tables(world().plain() | {"attacks": [{"name": "dlg", "rounds": [1, 2, 3]}]})
    kinds = {k: odd_replies.TRAINING[k] for k in ("npz", "weight list", "no metrics")}
    _, records = rounds_of(kinds, scenario=scenario, observe=tmp_path)
    assert all(record["clients"] == 2 for record in records.values())
    seen = sorted(path.stem for path in tmp_path.glob("*.json"))
    assert seen == [f"{number}-{node}" for number in (1, 2, 3) for node in (0, 2)]


@pytest.mark.parametrize("weight", [1e15, 10**15, 60.0])
def test_a_weight_beyond_what_the_client_has_counts_for_what_it_has(weight):
    """num-examples = 1e18 made the sender's update the model."""
    kinds = {"heavy": (odd_replies.metric("num-examples", weight), "counts for")}
    end, records = rounds_of(kinds)
    (why,) = lines(records["heavy"])
    assert "counts for" in why and records["heavy"]["clients"] == 3
    expected, _ = rounds_of({"honest": (lambda reply, message: reply, "")})
    assert all(torch.equal(end[key], expected[key]) for key in expected)


def test_who_keeps_its_count_private_counts_like_the_others():
    """A client with dp says 1: weighed by that, its update would not count at all."""
    kinds = {"private": (odd_replies.metric("num-examples", 1), "")}
    end, _ = rounds_of(kinds)
    plain, _ = rounds_of(
        {"honest": (lambda reply, message: reply, "")},
        scenario=world(strategy={"weighting": "plain"}),
    )
    assert all(torch.equal(end[key], plain[key]) for key in plain)


@pytest.fixture(scope="module")
def evaluated():
    return rounds_of(odd_replies.FIGURES, on="evaluate", scenario=world(training={"holdout": 0.5}))


@pytest.mark.parametrize("kind", odd_replies.FIGURES)
def test_an_odd_evaluation_is_named_and_left_out(evaluated, kind):
    record = evaluated[1][kind]
    (why,) = lines(record)
    assert odd_replies.FIGURES[kind][1] in why and record["clients"] == 3
    assert 0 <= record["client-accuracy"] <= 1


FLOWERS = {"strategy": "flwr.serverapp.strategy:FedAvg"}
UNEVEN = {
    "one metric more": (odd_replies.metric("mine", 1.0), "mine"),
    "one metric less": (odd_replies.figures(lambda f: {"num-examples": 4}), "loss"),
}


@pytest.mark.parametrize("federation", [{}, FLOWERS])
@pytest.mark.parametrize("on", ["train", "evaluate"])
def test_metrics_that_differ_from_the_others_do_not_end_the_run(federation, on):
    """Flower's own strategies refuse a round in which one client has a metric more."""
    scenario = world(training={"holdout": 0.5}, federation=federation)
    _, records = rounds_of(UNEVEN, on=on, scenario=scenario)
    for kind, record in records.items():
        assert any(UNEVEN[kind][1] in why for why in lines(record))
        assert record["clients"] == 3 and "train-mine" not in record


def test_who_does_not_say_how_well_it_does_alone_is_left_out():
    kinds = {
        "silent": (odd_replies.figures(lambda f: {"num-examples": 4}), "accuracy"),
        "list": (odd_replies.metric("accuracy", [1.0]), "list"),
    }
    scenario = world(federation={"strategy": "standalone"})
    _, records = rounds_of(kinds, on="train.standalone", scenario=scenario)
    for kind, record in records.items():
        assert kinds[kind][1] in lines(record)[0] and record["clients"] == 2
        assert record["accuracy"] > 0 and "accuracy" in record["claimed"]


def test_what_clients_say_is_marked_as_claimed():
    kinds = {"claim": (odd_replies.metric("epsilon", 0.25), "")}
    _, records = rounds_of(kinds, scenario=world(training={"holdout": 0.5}))
    record = records["claim"]
    assert {"train-epsilon", "train-loss", "client-accuracy"} <= set(record["claimed"])
    assert record["train-epsilon"] == 0.25
    assert not {"accuracy", "loss", "clients"} & set(record["claimed"])


def test_a_client_cannot_write_the_servers_own_account():
    kinds = {"forged": (odd_replies.metric("user-epsilon", 0.001), "")}
    _, records = rounds_of(kinds)
    assert not {"user-epsilon", "user-privacy", "train-user-epsilon"} & records["forged"].keys()


class Meddling(SimulationGrid):
    """A grid on which replies come twice, from strangers, or from the wrong node."""

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        replies = super().send_and_receive(messages, timeout=timeout)
        if messages[0].metadata.message_type != "train":
            return replies
        stray = Message(RecordDict(), 99, "train")
        stranger = Message(replies[0].content, reply_to=stray)
        other = Message(replies[0].content, reply_to=messages[0])
        other.metadata.__dict__["_reply_to_message_id"] = "never-sent"
        return [*replies, replies[1], stranger, other]


def test_replies_that_nobody_asked_for_are_named_and_not_used():
    end, records = rounds_of({"honest": (lambda r, m: r, "")}, grid=Meddling)
    odd = {(one["client"], one["why"]) for one in records["honest"]["odd"]}
    assert (ODD, "it answered twice; the first one counts") in odd
    assert ("node 99", "it answered what it was not asked") in odd
    assert (0, "it answered what it was not asked") in odd
    expected, _ = rounds_of({"honest": (lambda r, m: r, "")})
    assert all(torch.equal(end[key], expected[key]) for key in expected)


def test_a_mean_without_a_finite_loss_does_not_become_the_model():
    scenario = world()
    run, records = run_of(scenario, honest)
    start = first_state(scenario)
    object.__setattr__(run, "evaluate", lambda state: losing(state, start))
    end = run.run(start, [1, 2])
    assert all(torch.equal(end[key], start[key]) for key in start)
    assert all("no finite loss" in record["odd"][0]["why"] for record in records)
    assert all(record["loss"] == 1.0 for record in records)


def losing(state, start):
    same = all(torch.equal(state[key], start[key]) for key in start)
    return {"accuracy": 0.5, "loss": 1.0 if same else float("nan")}


def test_too_few_honest_clients_still_end_the_run():
    scenario = world(federation={"min-clients": 3})
    run, _ = run_of(scenario, enemy([odd_replies.TRAINING["npz"][0]]))
    object.__setattr__(run, "min_clients", 3)
    with pytest.raises(WorkFailed, match="2 of 3 clients gave a usable answer"):
        run.run(first_state(scenario), [1])


def test_one_line_of_the_log_stays_one_line(caplog):
    kinds = {k: odd_replies.FIGURES[k] for k in ("an error that forges lines", "an error")}
    with caplog.at_level(logging.WARNING):
        rounds_of(kinds)
    assert all("\n" not in r.getMessage() and "\x1b" not in r.getMessage() for r in caplog.records)
