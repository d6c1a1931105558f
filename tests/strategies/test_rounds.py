"""Rounds over virtual clients, good and bad."""

import os
import random

import pytest
import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedpriv.clients.app import app as honest
from fedpriv.errors import WorkFailed
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.strategies.catalogue import strategy_of
from fedpriv.strategies.fedavg import weighted_mean
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.rounds import Federated
from fedpriv.wire import record_of, state_in


def noted(records, record):
    """How many rounds were noted, with this one."""
    records.append(record)
    return len(records)


def federated(scenario, app=honest, shuffle=False, last=100):
    """A federation that is told to stop after `last` rounds, and the records of its rounds."""
    backend = InlineBackend()
    backend.build(lambda: app)
    contexts = contexts_of(scenario, {"scenario": scenario.text()})
    if shuffle:
        items = list(contexts.items())
        random.Random(5).shuffle(items)
        contexts = dict(items)
    roster = Roster(scenario.federation.clients)
    records = []
    run = Federated(
        strategy=strategy_of(scenario, roster),
        grid=SimulationGrid(backend, contexts),
        roster=roster,
        seed=scenario.seed,
        evaluate=lambda state: {"accuracy": 0.0, "loss": 0.0},
        min_clients=scenario.federation.min_clients,
        on_round=lambda record, state: noted(records, record) < last,
    )
    return run, records


def changed(tiny, **sections):
    plain = tiny.plain()
    return from_tables({**plain, **{k: {**plain.get(k, {}), **v} for k, v in sections.items()}})


def misbehaving(*bad, how):
    """The honest app, except that the clients of some partitions answer by `how`."""
    app = ClientApp()

    @app.query()
    def who(message, context):
        return honest(message, context)

    @app.train()
    def train(message, context):
        reply = honest(message, context)
        return how(reply, message) if context.node_config["partition-id"] in bad else reply

    return app


def with_first(reply, change):
    state = state_in(reply.content["arrays"])
    name = next(iter(state))
    state[name] = change(state[name])
    reply.content["arrays"] = record_of(state)
    return reply


def broken_down(reply, message):
    raise MemoryError("no memory left")


WAYS = {
    "NaN": (lambda r, m: with_first(r, lambda v: v * torch.nan), "NaN"),
    "infinity": (lambda r, m: with_first(r, lambda v: v + torch.inf), "infinity"),
    "shape": (lambda r, m: with_first(r, lambda v: v[..., :1]), "shape"),
    "breakdown": (broken_down, "MemoryError: no memory left"),
    "no examples": (
        lambda r, m: Message(
            RecordDict(
                {"arrays": r.content["arrays"], "metrics": MetricRecord({"num-examples": 0})}
            ),
            reply_to=m,
        ),
        "num-examples",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_reply_is_named_and_left_out_of_the_mean(tiny, way):
    how, words = WAYS[way]
    run, records = federated(tiny, misbehaving(2, how=how))
    end = run.run(first_state(tiny), [1])
    assert [f["client"] for f in records[0]["failed"]] == [2]
    assert words in records[0]["failed"][0]["why"]
    assert records[0]["clients"] == 3

    seen = []
    app = misbehaving(0, 1, 2, 3, how=lambda r, m: seen.append(r) or r)
    federated(tiny, app)[0].run(first_state(tiny), [1])
    good = [seen[i].content for i in (0, 1, 3)]
    expected = weighted_mean(
        [state_in(c["arrays"]) for c in good], [c["metrics"]["num-examples"] for c in good]
    )
    assert all(torch.equal(end[key], expected[key]) for key in end)


def test_too_few_usable_answers_end_the_run_and_say_why(tiny):
    scenario = changed(tiny, federation={"min-clients": 3})
    run, records = federated(scenario, misbehaving(0, 1, how=WAYS["NaN"][0]))
    with pytest.raises(WorkFailed, match=r"2 of 4 clients gave a usable answer, 3 are needed.*NaN"):
        run.run(first_state(scenario), [1])
    assert records == []


def test_a_failed_turn_of_round_robin_does_not_end_the_run(tiny):
    scenario = changed(tiny, federation={"strategy": "round-robin"})
    run, records = federated(scenario, misbehaving(1, how=WAYS["NaN"][0]))
    run.run(first_state(scenario), range(1, 7))
    assert [record["clients"] for record in records] == [1, 0, 1, 1, 1, 0]


def test_a_whole_lap_without_an_answer_ends_round_robin(tiny):
    scenario = changed(tiny, federation={"strategy": "round-robin"})
    run, records = federated(scenario, misbehaving(0, 1, 2, 3, how=WAYS["NaN"][0]))
    with pytest.raises(WorkFailed):
        run.run(first_state(scenario), range(1, 9))
    assert len(records) == 3


def test_a_federation_that_is_told_to_stop_stops_after_that_round(tiny):
    run, records = federated(tiny, last=2)
    end = run.run(first_state(tiny), range(1, 9))
    assert [record["round"] for record in records] == [1, 2]
    expected = federated(tiny)[0].run(first_state(tiny), [1, 2])
    assert all(torch.equal(end[key], expected[key]) for key in end)


def test_weights_are_examples_or_equal():
    states = [{"w": torch.tensor([0.0])}, {"w": torch.tensor([4.0])}]
    assert weighted_mean(states, [3, 1])["w"] == 1
    assert weighted_mean(states, [1, 1])["w"] == 2


def test_plain_and_weighted_means_differ_on_unequal_clients(tiny):
    uneven = {"data": {"partition": "dirichlet", "alpha": 0.3}}
    ends = []
    for weighting in ("examples", "plain"):
        scenario = changed(tiny, strategy={"weighting": weighting}, **uneven)
        ends.append(federated(scenario)[0].run(first_state(scenario), [1]))
    assert any(not torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


def test_counters_are_not_averaged():
    states = [{"n": torch.tensor(3)}, {"n": torch.tensor(3)}]
    assert weighted_mean(states, [1, 2])["n"].dtype == torch.int64


def test_node_order_does_not_matter(tiny):
    scenario = changed(tiny, federation={"fraction": 0.5})
    ends = [
        federated(scenario, shuffle=shuffle)[0].run(first_state(scenario), [1, 2, 3])
        for shuffle in (False, True)
    ]
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


def test_a_fraction_of_the_clients_is_asked_and_changes_by_round(tiny):
    scenario = changed(tiny, federation={"clients": 8, "fraction": 0.5})
    run, _ = federated(scenario)
    chosen = [run.strategy.chosen(r, list(range(8))) for r in range(1, 6)]
    assert {len(nodes) for nodes in chosen} == {4}
    assert len({tuple(nodes) for nodes in chosen}) > 1


def test_round_robin_goes_from_client_to_client(tiny):
    scenario = changed(tiny, federation={"strategy": "round-robin"})
    run, _ = federated(scenario)
    state = first_state(scenario)
    for turn in (1, 2):
        messages = run.strategy.configure_train(turn, record_of(state), ConfigRecord(), run.grid)
        assert [run.roster.partition(m.metadata.dst_node_id) for m in messages] == [turn - 1]
        state = state_in(run.grid.send_and_receive(messages)[0].content["arrays"])
    straight = federated(scenario)[0].run(first_state(scenario), [1, 2])
    assert all(torch.equal(state[key], straight[key]) for key in state)


def test_standalone_shares_nothing_and_reports_accuracy(tiny):
    scenario = changed(tiny, federation={"strategy": "standalone"})
    run, records = federated(scenario)
    start = first_state(scenario)
    end = run.run(start, [1, 2])
    assert all(torch.equal(start[key], end[key]) for key in start)
    assert records[-1]["bytes-up"] == 0
    assert records[-1]["accuracy"] > 0.25


def test_clients_evaluate_when_they_keep_a_split(tiny):
    scenario = changed(tiny, training={"holdout": 0.2})
    run, records = federated(scenario)
    run.run(first_state(scenario), [1])
    assert 0 <= records[0]["client-accuracy"] <= 1


def test_a_strategy_of_somebody_else_runs(tiny):
    theirs = {"strategy": "flwr.serverapp.strategy:FedAvgM"}
    scenario = changed(tiny, federation=theirs, strategy={"server-momentum": 0.5})
    run, records = federated(scenario)
    run.run(first_state(scenario), [1, 2])
    assert records[-1]["clients"] == 4


def test_no_randomness_of_the_process_enters(tiny):
    ends = []
    for seed in (1, 2):
        random.seed(seed)
        torch.manual_seed(seed)
        os.environ["PYTHONHASHSEED"] = str(seed)
        ends.append(federated(tiny)[0].run(first_state(tiny), [1, 2]))
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])
