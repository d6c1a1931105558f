"""What every privacy plugin owes: a neutral value, nothing invented, no secret in a message."""

import sys
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from flwr.common.serde import recorddict_to_proto
from messages import answered, ask, context_of

from fedpriv.clients.catalogue import PLUGINS, check_plugins, plugin_of, row_of
from fedpriv.clients.job import make_job, shuffled
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.pruning import GradientPruning
from fedpriv.errors import BadOption
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state, training_samples
from fedpriv.scenario.sections import Spec

SECRET = 3_141_592_653_589_793_238
TRAINING = {"lr": 0.01, "batch-size": 8, "local-steps": 3}
CODES = {
    "federation": {"strategy": "representation"},
    "representation": {
        "options": {"hidden": [16], "code": 6},
        "encoder-epochs": 2,
        "decoder-epochs": 2,
    },
}
HOOKS = {
    "update": ("on_setup", "on_batch", "on_update"),
    "codes": ("on_encoder", "on_representation"),
}


def with_plugins(tiny, *plugins, **sections):
    return from_tables(merged(tiny.plain(), {**sections, "plugins": list(plugins)}))


def updates(tiny, *plugins, rounds=2, **training):
    """The answers of a client that gets its own model back."""
    scenario = with_plugins(tiny, *plugins, training={**TRAINING, **training})
    context, state, answers = context_of(scenario), None, []
    for server_round in range(1, rounds + 1):
        state = answered(ask(scenario, context, state, server_round))
        answers.append(state)
    return answers


def codes(tiny, *plugins):
    """The encoder that a party publishes, and its codes."""
    scenario = with_plugins(tiny, *plugins, **CODES)
    encoder = answered(ask(scenario, kind="train.encoder"))
    return [encoder, answered(ask(scenario, state=encoder, kind="query.codes"))]


SHARED = {"update": updates, "codes": codes}


def equal(one, other):
    return all(torch.equal(a[key], b[key]) for a, b in zip(one, other, strict=True) for key in a)


def shapes(answers):
    return [{key: value.shape for key, value in state.items()} for state in answers]


def check_contract(tiny, name, what, **training):
    """What every plugin owes: a neutral setting, a strong one, and the same answer for a seed."""
    row, shared = row_of(name), partial(SHARED[what], tiny, **training)
    assert row.neutral is not None, f"plugin '{name}' does not say which setting changes nothing"
    neutral = shared({"name": name, **row.neutral})
    assert equal(neutral, shared(*(spec.plain() for spec in row.baseline)))
    strong = shared({"name": name, **row.strong})
    assert not equal(neutral, strong) and shapes(neutral) == shapes(strong)
    assert equal(strong, shared({"name": name, **row.strong}))


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("name", [name for name in PLUGINS if "update" in row_of(name).protects])
def test_a_plugin_of_updates_keeps_the_contract(tiny, name, optimiser):
    check_contract(tiny, name, "update", optimiser=optimiser)


@pytest.mark.parametrize("name", [name for name in PLUGINS if "codes" in row_of(name).protects])
def test_a_plugin_of_codes_keeps_the_contract(tiny, name):
    check_contract(tiny, name, "codes")


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_protects_what_its_hooks_act_on(name):
    row = row_of(name)
    own = {
        what
        for what, hooks in HOOKS.items()
        if any(getattr(row.build, hook) is not getattr(PrivacyPlugin, hook) for hook in hooks)
    }
    ours = row.build.__module__.startswith("fedpriv.")
    assert set(row.protects) == own if ours else set(row.protects) >= own


@dataclass(frozen=True)
class Rounding(PrivacyPlugin):
    """Somebody else's: as many digits as asked for."""

    digits: int = 3

    neutral = {"digits": 60}  # noqa: RUF012
    strong = {"digits": 1}  # noqa: RUF012
    protects = ("update",)

    def on_update(self, update, job):
        return {k: v.double().round(decimals=self.digits).float() for k, v in update.items()}


class Silent(PrivacyPlugin):
    """Says nothing about itself."""


@pytest.fixture
def house(monkeypatch):
    """Plugins of another package: by import path, and one by entry point."""
    module = SimpleNamespace(Rounding=Rounding, Silent=Silent)
    monkeypatch.setitem(sys.modules, "house", module)
    point = EntryPoint("rounding", "house:Rounding", PLUGINS.group)
    monkeypatch.setitem(vars(PLUGINS), "_points", {"rounding": point})


def test_somebody_elses_plugin_says_what_it_is_and_keeps_the_contract(tiny, house):
    assert "rounding" in PLUGINS and row_of("rounding").protects == ("update",)
    check_contract(tiny, "rounding", "update")
    check_contract(tiny, "house:Rounding", "update")
    assert row_of("house:Silent").protects == ("update", "codes")
    with pytest.raises(AssertionError, match="does not say"):
        check_contract(tiny, "house:Silent", "update")


@pytest.mark.parametrize(
    ("name", "shares", "says"),
    [
        ("ars", "update", "'ars' protects codes, but the strategy shares updates"),
        ("dp", "codes", "'dp' protects updates, but the strategy shares codes"),
        ("noisy", "nothing", "shares nothing"),
        ("rounding", "codes", "'rounding' protects updates"),
        ("ars", "codes", None),
        ("dp", "update", None),
        ("dp", "nothing", None),
        ("house:Silent", "codes", None),
    ],
)
def test_a_plugin_that_cannot_act_on_what_is_shared_is_refused(house, name, shares, says):
    if says is None:
        check_plugins([Spec(name)], shares)
        return
    with pytest.raises(BadOption, match=says):
        check_plugins([Spec("guard")] * (shares == "update") + [Spec(name)], shares)


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
    """Head, codes, optimiser state, seed, samples, batch order: looked for in all that is sent."""
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
    public = {"loss", "steps", "num-examples", "admitted-examples", "epsilon", "delta"}
    assert set(reply.content["metrics"]) <= public


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


@pytest.mark.parametrize("scope", ["layer", "global"])
def test_pruning_shares_the_largest_by_magnitude(tiny, scope):
    job = make_job(tiny, first_state(tiny), 1, context_of(tiny))
    update = {"w": torch.tensor([0.1, -5.0, 0.3, 4.0]), "b": torch.tensor([-2.0, 0.2])}
    released = GradientPruning(fraction=0.5, scope=scope).on_update(update, job)
    assert released["w"].tolist() == [0, -5, 0, 4]
    assert released["b"].tolist() == pytest.approx([-2.0, 0])


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
