"""What every privacy plugin owes: a neutral value, nothing invented, no secret in a message."""

import numpy as np
import pytest
import torch
from flwr.common.serde import recorddict_to_proto
from messages import answered, ask, context_of

from fedpriv.clients.catalogue import PLUGINS, plugin_of
from fedpriv.clients.job import make_job, shuffled
from fedpriv.errors import BadOption
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state, training_samples
from fedpriv.scenario.sections import Spec

SECRET = 3_141_592_653_589_793_238
NEUTRAL = {
    "spn": {"alpha2": 0.0},
    "noise": {"scale": 0.0},
    "pruning": {"fraction": 1.0},
    "clip": {"norm": float("inf")},
    "augment": {"policy": "none"},
    "dp": {"noise-multiplier": 0.0, "max-grad-norm": float("inf")},
}
STRONG = {
    "spn": {"alpha2": 0.5},
    "noise": {"scale": 0.1},
    "pruning": {"fraction": 0.1},
    "clip": {"norm": 1e-3},
    "augment": {"policy": "3-1-7+43-18-18"},
    "dp": {"noise-multiplier": 1.0},
}


def with_plugins(tiny, *plugins, **sections):
    tables = {**tiny.plain(), **sections, "plugins": list(plugins)}
    return from_tables(tables)


def weights(scenario, rounds=2):
    """The answers of a client that gets its own model back."""
    context, state, answers = context_of(scenario), None, []
    for server_round in range(1, rounds + 1):
        state = answered(ask(scenario, context, state, server_round))
        answers.append(state)
    return answers


def equal(one, other):
    return all(torch.equal(a[key], b[key]) for a, b in zip(one, other, strict=True) for key in a)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("name", PLUGINS)
def test_a_neutral_value_is_no_plugin_bit_for_bit(tiny, name, optimiser):
    if name not in NEUTRAL:
        pytest.skip("shares codes, not updates")
    training = {"lr": 0.01, "batch-size": 8, "optimiser": optimiser, "local-steps": 4}
    plain = weights(with_plugins(tiny, training=training))
    assert equal(
        plain, weights(with_plugins(tiny, {"name": name, **NEUTRAL[name]}, training=training))
    )


@pytest.mark.parametrize("name", STRONG)
def test_a_strong_value_changes_the_answer_and_invents_no_parameter(tiny, name):
    training = {"lr": 0.1, "batch-size": 8, "local-steps": 3}
    plain = weights(with_plugins(tiny, training=training), rounds=1)
    strong = weights(with_plugins(tiny, {"name": name, **STRONG[name]}, training=training), 1)
    assert not equal(plain, strong)
    assert {k: v.shape for k, v in strong[0].items()} == {k: v.shape for k, v in plain[0].items()}


@pytest.mark.parametrize("name", STRONG)
def test_the_same_seed_gives_the_same_answer(tiny, name):
    scenario = with_plugins(tiny, {"name": name, **STRONG[name]}, training={"local-steps": 2})
    assert equal(weights(scenario, 1), weights(scenario, 1))


@pytest.mark.parametrize("on", ["gradient", "update"])
def test_a_server_that_repeats_a_round_gets_other_noise(tiny, on):
    scenario = with_plugins(
        tiny, {"name": "noise", "scale": 1.0, "on": on}, training={"local-steps": 1, "lr": 1e-6}
    )
    start = first_state(scenario)
    moved = {key: value + 1e-3 for key, value in start.items()}
    noises = [
        answered(ask(scenario, state=state))["1.weight"] - state["1.weight"]
        for state in (start, moved)
    ]
    difference = (noises[0] - noises[1]).abs().mean() / noises[0].abs().mean()
    assert difference > 0.5


CHAINS = {
    "spn": [{"name": "spn", "alpha2": 0.5}],
    "dp": [{"name": "dp", "noise-multiplier": 1.0}],
    "pruning": [{"name": "pruning", "fraction": 0.1, "feedback": True}],
    "spn+dp": [{"name": "spn"}, {"name": "dp", "noise-multiplier": 1.0}],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_no_byte_of_three_rounds_is_a_secret(tiny, chain):
    """Head, codes, optimiser state, seed, samples and batch order: looked for in every byte sent."""
    scenario = with_plugins(tiny, *CHAINS[chain], training={"batch-size": 8, "local-steps": 3})
    context = context_of(scenario, secret_seed=SECRET)
    state, captured, secrets = None, b"", []
    for server_round in (1, 2, 3):
        start = first_state(scenario) if state is None else state
        job = make_job(scenario, start, server_round, context)
        for batch in shuffled(job):
            secrets += [batch.numpy().tobytes(), job.indices[batch].numpy().tobytes()]
        reply = ask(scenario, context, state, server_round)
        captured += recorddict_to_proto(reply.content).SerializeToString()
        state = answered(reply)
        for record in context.state.array_records.values():
            secrets += [array.numpy().tobytes() for array in record.values() if array.shape]
    x = training_samples(scenario)[0][job.indices]
    secrets += [sample.numpy().tobytes() for sample in x]
    secrets += [str(SECRET).encode(), SECRET.to_bytes(8, "big"), SECRET.to_bytes(8, "little")]
    assert len(captured) > 3 * sum(value.numel() * 4 for value in first_state(scenario).values())
    assert not [secret for secret in secrets if len(secret) >= 8 and secret in captured]
    rows = [s[:64] for s in secrets if len(s) > 64]  # and no part of a secret either
    assert not [row for row in rows if np.frombuffer(row, np.uint8).any() and row in captured]
    names = {key for record in reply.content.array_records.values() for key in record}
    assert names == set(first_state(scenario))
    assert set(reply.content["metrics"]) <= {"loss", "steps", "num-examples", "epsilon", "delta"}


SENSELESS = [
    (["dp", "spn"], "put spn first"),
    (["dp", "noise"], "noise-multiplier"),
    (["noise", "dp"], "drop the noise"),
    (["noise-update", "clip"], "put clip first"),
    (["pruning", "pruning"], "twice"),
]
OPTIONS = {
    "dp": {"noise-multiplier": 1.0},
    "noise-update": {"on": "update"},
}


@pytest.mark.parametrize(("names", "reason"), SENSELESS)
def test_an_order_without_sense_is_refused_with_the_reason(names, reason):
    specs = [Spec(name.removesuffix("-update"), OPTIONS.get(name, {})) for name in names]
    with pytest.raises(BadOption, match=reason):
        plugin_of(specs)


@pytest.mark.parametrize("names", [["spn", "dp"], ["noise", "pruning"], ["clip", "noise-update"]])
def test_an_order_with_sense_is_taken(names):
    plugin_of([Spec(name.removesuffix("-update"), OPTIONS.get(name, {})) for name in names])


def test_a_client_answers_a_senseless_order_with_the_reason(tiny):
    scenario = with_plugins(tiny, {"name": "dp", "noise-multiplier": 1.0}, {"name": "spn"})
    reply = ask(scenario)
    assert reply.has_error() and "put spn first" in reply.error.reason


BAD = [
    ("spn", {"alpha2": -0.1}),
    ("spn", {"alpha1": 0.0}),
    ("spn", {"bits": 0}),
    ("spn", {"margin": 0.5}),
    ("spn", {"width": 0.0}),
    ("spn", {"lr": 0.0}),
    ("noise", {"scale": -1.0}),
    ("noise", {"scale": float("inf")}),
    ("noise", {"kind": "pink"}),
    ("pruning", {"fraction": 0.0}),
    ("pruning", {"fraction": 1.5}),
    ("clip", {"norm": 0.0}),
    ("clip", {"norm": float("nan")}),
    ("dp", {}),
    ("dp", {"epsilon": 1.0, "noise-multiplier": 1.0}),
    ("dp", {"epsilon": -1.0}),
    ("dp", {"noise-multiplier": 1.0, "max-grad-norm": float("inf")}),
    ("dp", {"noise-multiplier": 1.0, "delta": 1.0}),
]


@pytest.mark.parametrize(("name", "options"), BAD)
def test_an_impossible_option_is_named(name, options):
    with pytest.raises(BadOption, match=name):
        PLUGINS.build(name, options)
