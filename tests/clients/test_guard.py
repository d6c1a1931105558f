"""The guard notices every malicious server and no honest round; its actions do what they say."""

import pytest
import torch
from messages import answered, ask, context_of

from fedpriv.clients.plugins.guard import (
    Guard,
    always_on,
    change,
    over_limit,
    parallel_rows,
    seldom_on,
    signs,
    silenced,
    silent_rows,
    size_of,
)
from fedpriv.errors import BadOption
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import (
    dataset_of,
    first_state,
    loaded,
    model_of,
    training_samples,
)
from fedpriv.scenario.built import test_samples as server_samples
from fedpriv.strategies.malicious.catalogue import MALICIOUS
from fedpriv.strategies.malicious.wrapper import Known
from fedpriv.wire import Memory


def scenario_of(model="mlp", **guard):
    return from_tables(
        {
            "seed": 3,
            "data": {"name": "synthetic"},
            "model": {"name": model},
            "training": {"lr": 0.1, "batch-size": 16, "local-steps": 5},
            "federation": {"clients": 4},
            "plugins": [{"name": "guard", **guard}],
        }
    )


def planted(scenario, name, state=None):
    x, y = server_samples(scenario)
    known = Known(model_of(scenario), x, y, dataset_of(scenario).classes)
    return MALICIOUS.build(name)(first_state(scenario) if state is None else state, known)


@pytest.mark.parametrize("model", ["mlp", "lenet"])
@pytest.mark.parametrize("name", MALICIOUS)
def test_every_malicious_server_is_noticed_without_history(model, name):
    scenario = scenario_of(model)
    state = planted(scenario, name)
    x, y = training_samples(scenario)
    found = signs(loaded(model_of(scenario), state), state, x[:128], y[:128])
    assert max(over_limit(found).values()) >= 1


@pytest.mark.parametrize("model", ["mlp", "lenet", "dlnet"])
def test_honest_rounds_are_not(model):
    scenario = scenario_of(model)
    context, state = context_of(scenario), first_state(scenario)
    for server_round in range(1, 9):
        reply = ask(scenario, context, state, server_round)
        state = answered(reply)
        assert reply.content["metrics"]["guard-alarms"] == 0


def test_a_jump_is_noticed_with_history_and_does_not_become_the_yardstick():
    scenario = scenario_of()
    context, state = context_of(scenario), first_state(scenario)
    assert not ask(scenario, context, state, 1).has_error()
    louder = {key: value * (11 if key == "3.weight" else 1) for key, value in state.items()}
    for server_round in (2, 3):
        assert "change of weights" in ask(scenario, context, louder, server_round).error.reason
    assert not ask(scenario, context, state, 4).has_error()


def test_refusing_says_why_and_writes_it_down():
    scenario = scenario_of()
    context = context_of(scenario)
    reply = ask(scenario, context, planted(scenario, "imprint"), 7)
    assert "round 7" in reply.error.reason and "parallel rows (1.weight)" in reply.error.reason
    alarms = Memory(context.state).facts("guard")["alarms"]
    assert any(alarm.startswith("round 7: parallel rows") for alarm in alarms)


def test_warning_trains_on_and_is_no_change():
    state = planted(scenario_of(), "imprint")
    warned = ask(scenario_of(action="warn"), state=state)
    bare = from_tables({**scenario_of().plain(), "plugins": []})
    plain = ask(bare, state=state)
    assert warned.content["metrics"]["guard-alarms"] > 0
    one, other = (answered(reply) for reply in (warned, plain))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_clipping_answers_with_noise_around_nothing_much():
    scenario = scenario_of(action="clip", clip=0.5, noise=0.2)
    state = planted(scenario, "imprint")
    after = answered(ask(scenario, state=state))
    difference = after["1.weight"] - state["1.weight"]
    assert abs(difference.std().item() - 0.1) < 0.01


def test_the_signs_on_worked_numbers():
    same = torch.arange(1.0, 9.0).repeat(4, 1)
    assert parallel_rows(same * torch.tensor([[1.0], [2.0], [3.0], [4.0]])) == 1
    assert parallel_rows(torch.cat([same[:1], -same[:1], torch.eye(8)])) == 0
    assert silent_rows(torch.tensor([[1.0, 0], [0, 0], [0, 0], [1e-5, 0]])) == 0.75
    on = torch.tensor([[1.0, 0, 1], *[[0.0, 0, 1]] * 19])
    assert seldom_on(on) == pytest.approx(1 / 3) and always_on(on) == pytest.approx(1 / 3)
    error = torch.ones(8)
    assert silenced(torch.tensor([1.0] + [0.0] * 7), error) == 7 / 8
    assert silenced(torch.linspace(0.1, 1, 8), error) == 0
    assert silenced(torch.tensor([1.0] + [0.0] * 7), torch.tensor([1.0] + [0.0] * 7)) == 0
    assert change({"a": 10.0}, {"a": 1.0}) == pytest.approx(2.302585)
    assert change({"a": 10.0}, {}) == 0
    assert size_of(torch.full((3, 4), 2.0)) == pytest.approx(4.0)


@pytest.mark.parametrize("options", [{"tolerance": 0.0}, {"samples": 0}, {"noise": -1.0}])
def test_impossible_options_are_named(options):
    with pytest.raises(BadOption, match=next(iter(options))):
        Guard(**options)
