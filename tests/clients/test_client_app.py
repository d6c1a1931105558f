"""The ClientApp, message by message."""

import pytest
import torch
from flwr.app import Message, RecordDict
from messages import answered, ask, context_of
from torch.nn.functional import cross_entropy

from fedpriv.clients.app import app
from fedpriv.clients.job import fit, make_job, own_split, shuffled
from fedpriv.clients.plugin import PrivacyPlugin, chain
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state, loaded, model_of, shares_of, training_samples
from fedpriv.state import state_of
from fedpriv.wire import REFUSED


def changed(tiny, **sections):
    return from_tables({**tiny.plain(), **sections})


def test_training_answers_with_a_model_and_its_figures(tiny):
    reply = ask(tiny, context_of(tiny))
    metrics = reply.content["metrics"]
    start, end = first_state(tiny), answered(reply)
    assert metrics["num-examples"] == len(shares_of(tiny)[0])
    assert metrics["steps"] == -(-metrics["num-examples"] // 8)
    assert end.keys() == start.keys()
    assert any(not torch.equal(end[key], start[key]) for key in start)


def test_the_same_message_gives_the_same_answer_and_another_round_another(tiny):
    def weights(server_round, secret=11):
        context = context_of(tiny, secret_seed=secret)
        return answered(ask(tiny, context, server_round=server_round))

    def equal(a, b):
        return all(torch.equal(a[key], b[key]) for key in a)

    assert equal(weights(1), weights(1))
    assert not equal(weights(1), weights(2))
    assert not equal(weights(1), weights(1, secret=12))


def test_one_step_on_one_batch_is_the_gradient(tiny):
    scenario = changed(tiny, training={"lr": 0.5, "batch-size": 4, "local-steps": 1})
    context = context_of(scenario)
    start = first_state(scenario)
    job = make_job(scenario, start, 1, context)
    batch = next(shuffled(job))
    model = loaded(model_of(scenario), start)
    cross_entropy(model(job.x[batch]), job.y[batch]).backward()
    reply = answered(ask(scenario, context))
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(reply[name], start[name] - 0.5 * parameter.grad)


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_steps_are_counted_and_batches_full(tiny, steps):
    scenario = changed(tiny, training={"batch-size": 50, "local-steps": steps})
    job = make_job(scenario, first_state(scenario), 1, context_of(scenario))
    batches = list(shuffled(job))
    assert len(batches) == steps
    assert {len(batch) for batch in batches} == {50}


def test_an_epoch_sees_every_sample_once(tiny):
    job = make_job(tiny, first_state(tiny), 1, context_of(tiny))
    seen = torch.cat(list(shuffled(job)))
    assert torch.equal(seen.sort().values, torch.arange(len(job.x)))


def test_clients_hold_their_own_samples(tiny):
    jobs = [make_job(tiny, first_state(tiny), 1, context_of(tiny, p)) for p in range(4)]
    numbers = torch.cat([job.indices for job in jobs])
    assert len(numbers.unique()) == len(numbers) == len(training_samples(tiny)[0])


def test_a_schedule_lowers_the_learning_rate(tiny):
    scenario = changed(tiny, training={"lr": 1.0, "schedule-rounds": [1], "schedule-factor": 0.1})
    rates = [
        make_job(scenario, first_state(scenario), r, context_of(scenario)).optimiser.defaults["lr"]
        for r in (1, 2)
    ]
    assert rates == pytest.approx([1.0, 0.1])


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_optimisers_learn(tiny, optimiser):
    scenario = changed(
        tiny, training={"optimiser": optimiser, "lr": 0.01, "momentum": 0.9, "local-epochs": 3}
    )
    context = context_of(scenario)
    first = ask(scenario, context)
    second = ask(scenario, context, answered(first), server_round=2)
    assert second.content["metrics"]["loss"] < first.content["metrics"]["loss"]


def test_standalone_keeps_its_model_and_sends_none(tiny):
    context = context_of(tiny)
    replies = [ask(tiny, context, server_round=r, kind="train.standalone") for r in (1, 2, 3)]
    assert all(not reply.content.array_records for reply in replies)
    losses = [reply.content["metrics"]["loss"] for reply in replies]
    assert losses[2] < losses[0]


def test_a_client_evaluates_on_samples_it_never_trains_on(tiny):
    scenario = changed(tiny, training={"holdout": 0.25})
    context = context_of(scenario)
    share = torch.from_numpy(shares_of(scenario)[0])
    trained, held = own_split(scenario, share)
    assert len(held) == round(0.25 * len(share))
    assert not set(trained.tolist()) & set(held.tolist())
    metrics = ask(scenario, context, kind="evaluate").content["metrics"]
    assert metrics["num-examples"] == len(held)
    assert 0 <= metrics["accuracy"] <= 1


def test_a_node_says_which_partition_it_holds(tiny):
    context = context_of(tiny, partition=3)
    metrics = app(Message(RecordDict(), 5, "query"), context).content["metrics"]
    assert metrics["partition-id"] == 3


@pytest.mark.parametrize(
    ("config", "words"),
    [({}, "no partition-id"), ({"partition-id": 9, "num-partitions": 4}, "0 to 3")],
)
def test_a_node_without_a_valid_partition_says_so(tiny, config, words):
    context = context_of(tiny)
    context.node_config = {"secret-seed": 11, **config}
    reply = ask(tiny, context)
    assert reply.has_error()
    assert words in reply.error.reason


def test_a_chain_is_its_plugins_in_order(tiny):
    class Scale(PrivacyPlugin):
        def on_update(self, update, job):
            return {key: value * 3 for key, value in update.items()}

    class Shift(PrivacyPlugin):
        def on_update(self, update, job):
            return {key: value + 1 for key, value in update.items()}

    job = make_job(tiny, first_state(tiny), 1, context_of(tiny))
    one = {"w": torch.ones(1)}
    assert chain(Scale(), Shift()).on_update(one, job)["w"] == 4
    assert chain(Shift(), Scale()).on_update(one, job)["w"] == 6
    assert chain().on_update(one, job) is one


def test_training_leaves_the_received_state_untouched(tiny):
    start = first_state(tiny)
    job = make_job(tiny, start, 1, context_of(tiny))
    before = {key: value.clone() for key, value in start.items()}
    fit(job, chain().on_batch)
    assert all(torch.equal(before[key], job.start[key]) for key in before)
    assert any(not torch.equal(before[key], state_of(job.shared)[key]) for key in before)


@pytest.mark.parametrize("server_round", ["1", 1.5, None])
def test_training_without_a_round_is_refused(tiny, server_round):
    reply = ask(tiny, server_round=server_round)
    assert reply.error.code == REFUSED and "server-round" in reply.error.reason
