"""A server that asks a client under dp for a part of its data, chosen so that one sample shows."""

import math

import pytest
import torch
from messages import context_of
from real_clients import DP, TERMS, RealClient, asked_for
from worlds import UPDATES

from fedpriv.clients.app import trained
from fedpriv.clients.job import own_split
from fedpriv.clients.protection.account import recalled, spent
from fedpriv.clients.protection.terms import PRODUCTS
from fedpriv.flower import recorddict_to_proto
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state
from fedpriv.wire import Memory

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


def world(*plugins, **sections):
    return from_tables(merged(UPDATES, {**sections, "plugins": list(plugins)}))


def dp(**options):
    return {"name": "dp", "noise-multiplier": 1.0, "samples": 32, **options}


@pytest.fixture
def holding(monkeypatch):
    """Gives every client the first so many samples of the data set."""

    def give(count):
        monkeypatch.setattr(
            "fedpriv.clients.job.shares_of", lambda *_: [torch.arange(count).numpy()] * 4
        )

    return give


@pytest.mark.parametrize("seed", range(8))
def test_a_hold_out_that_rounds_to_no_sample_moves_no_other(seed):
    """0.1 of 5 samples is none and of 6 is one: the sixth would turn the hold-out on for all."""
    scenario = world(dp(), training={"holdout": 0.1}, seed=seed)
    five, six = (set(own_split(scenario, torch.arange(n))[0].tolist()) for n in (5, 6))
    assert six - {5} == five


@pytest.mark.parametrize("mode", ["explicit", "hooks", "ghost"])
def test_a_client_with_no_sample_answers_as_one_with_a_sample(holding, mode):
    """The server chooses the seed and a hold-out of 0.999, so that only one sample may be left."""
    scenario = world(dp(**{"grad-sample": mode}), training={"lr": 1.0, "local-steps": 2})
    told = []
    for count in (0, 1):
        holding(count)
        context = context_of(scenario, secret_seed=None)
        _, update, figures = trained(scenario, first_state(scenario), 1, context)
        assert all(value.isfinite().all() and value.any() for value in update.values())
        told.append(figures)
    assert told[0] == told[1]


def test_over_the_wire_nobody_sees_that_there_is_no_sample(tmp_path, holding):
    client, figures = RealClient(tmp_path, TERMS + DP.replace("2.5", "99") + "samples = 64\n"), []
    for run, count in enumerate((0, 1), start=1):
        holding(count)
        reply = client.ask(asked_for(), 1, run=run)
        assert not reply.has_error(), reply.error.reason
        (found,) = reply.content.metric_records.values()
        figures.append({k: v for k, v in found.items() if k != "epsilon"})
    assert figures[0] == figures[1]


def test_the_size_of_a_reply_is_the_same_whatever_the_samples_are(tmp_path, holding):
    """Bytes on the wire are seen by whoever looks on, also where TLS hides what they say."""
    client, sizes = RealClient(tmp_path, TERMS + DP.replace("2.5", "99") + "samples = 64\n"), set()
    for run, count in enumerate((0, 1, 64, 65, 128), start=1):
        holding(count)
        reply = client.ask(asked_for(), 1, run=run)
        sizes.add(recorddict_to_proto(reply.content).ByteSize())
    assert len(sizes) == 1


@pytest.mark.parametrize("limit", [1, 512, 513, 10**6])
@pytest.mark.parametrize(("kind", "server_round"), [("train", 1), ("query", None)])
def test_no_limit_finds_out_how_many_samples_there_are(tmp_path, limit, kind, server_round):
    """There are 512: a limit of 512 was answered, 513 was not."""
    client = RealClient(tmp_path, TERMS + DP)
    sent = asked_for(data={"limit": limit})
    assert "data.limit" in client.why(sent, server_round, kind, state={})


@pytest.mark.parametrize("clients", [4, 512, 513])
def test_no_number_of_clients_does_either(tmp_path, clients):
    client = RealClient(tmp_path, TERMS + DP)
    del client.own["num-partitions"]
    sent = asked_for(federation={"clients": clients})
    assert "num-partitions" in client.why(sent, 1, state={})


def test_figures_of_a_model_that_stays_at_home_do_not_leave_under_dp(tmp_path):
    messages = f"messages = {list(PRODUCTS)}\n".replace("'", '"')
    client = RealClient(tmp_path, messages + TERMS + DP)
    assert "do not protect" in client.why(asked_for(), 1, "train.standalone")
    assert RealClient(tmp_path, messages + TERMS).answers(asked_for(), 1, "train.standalone")


def test_every_change_of_rate_and_steps_is_in_the_account(tmp_path):
    """New batch sizes, steps, hold-outs and runs: each adds what it spends, in one ledger."""
    context = context_of(world(dp()), secret_seed=None)
    expected, changes = [], ({}, {"batch-size": 8}, {"local-steps": 7}, {"holdout": 0.5})
    for run, training in enumerate(changes, start=1):
        scenario = world(dp(), training={"batch-size": 16, "local-steps": 3} | training)
        other = context_of(scenario, run=run, secret_seed=None)
        other.state = context.state
        _, _, figures = trained(scenario, first_state(scenario), 1, other)
        samples = round(32 * (1 - scenario.training.holdout))
        rate = min(1.0, scenario.training.batch_size / samples)
        expected.append((1.0, rate, scenario.training.local_steps))
        assert figures["epsilon"] == pytest.approx(spent(expected, 1e-5, "rdp"))
    found = recalled(Memory(context.state))
    assert sum(steps for _, _, steps in found) == 3 + 3 + 7 + 3
    assert math.isfinite(figures["epsilon"])
