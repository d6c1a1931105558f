"""A server that follows the protocol asks real clients for more than their owners allow."""

import json
import re

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from real_clients import DP, TERMS, RealClient, asked_for, unchecked

from fedpriv.clients.app import app
from fedpriv.clients.protection.reasons import PRIVATE
from fedpriv.clients.protection.terms import PRODUCTS
from fedpriv.codes.parties import coder_of
from fedpriv.scenario.built import first_state
from fedpriv.state import state_of
from fedpriv.wire import received

GUARD = '[[plugins]]\nname = "guard"\n'
ALL = f"messages = {json.dumps(list(PRODUCTS))}\n"
CODES = {"representation": {"encoder-epochs": 1, "decoder-epochs": 1, "task-epochs": 1}}


def with_layer(layer, **more):
    return asked_for(
        representation={**CODES["representation"], "layer": layer, **more},
        federation={"strategy": "representation"},
    )


def encoder(scenario):
    return state_of(coder_of(scenario).encoder(scenario.representation.layer))


# The rows of the layer `input`: raw samples for the asking.


@pytest.mark.parametrize("terms", [TERMS, GUARD, DP, ALL, ALL + 'layers = [""]\n'])
@pytest.mark.parametrize("kind", ["query.codes", "train.encoder", "train.columns"])
def test_nobody_gets_samples_by_asking_for_the_layer_input(tmp_path, terms, kind):
    client = RealClient(tmp_path, terms if TERMS in terms else TERMS + terms)
    client.why(with_layer("input"), 1, kind, state={})


@pytest.mark.parametrize("plugin", [GUARD, DP])
@pytest.mark.parametrize("kind", ["query.codes", "train.encoder", "train.columns", "evaluate"])
def test_what_a_plugin_of_the_terms_does_not_protect_is_refused(tmp_path, plugin, kind):
    client = RealClient(
        tmp_path, ALL + 'layers = ["", "input"]\ncode-size = 9999\n' + TERMS + plugin
    )
    scenario = with_layer("")
    assert "protect" in client.why(scenario, 1, kind, state=encoder(scenario))


def test_an_owner_who_shares_codes_shares_them(tmp_path):
    client = RealClient(tmp_path, ALL + 'layers = [""]\n' + TERMS)
    scenario = with_layer("")
    assert client.answers(scenario, 1, "query.codes", state=encoder(scenario))


def test_one_encoder_is_not_followed_by_another(tmp_path):
    """An encoder is a set of linear views; enough of them give the sample itself."""
    client = RealClient(tmp_path, ALL + 'layers = [""]\n' + TERMS)
    scenario = with_layer("")
    first = encoder(scenario)
    assert client.answers(scenario, 1, "query.codes", state=first)
    second = {name: value + 1 for name, value in first.items()}
    assert "encoders" in client.why(scenario, 2, "query.codes", state=second)
    assert client.answers(scenario, 2, "query.codes", state=first, run=2)


@pytest.mark.parametrize("options", [{"code": 256}, {"hidden": [], "code": 4096}])
def test_a_code_is_not_as_large_as_the_sample(tmp_path, options):
    client = RealClient(tmp_path, ALL + 'layers = [""]\n' + TERMS)
    scenario = with_layer("", options=options)
    assert "code-size" in client.why(scenario, 1, "query.codes", state=encoder(scenario))


# Kinds of message.


@pytest.mark.parametrize("terms", [None, ""], ids=["no file", "empty file"])
@pytest.mark.parametrize("kind", [*PRODUCTS, "query"])
def test_without_a_task_nothing_is_answered(tmp_path, terms, kind):
    assert not RealClient(tmp_path, terms).answers(with_layer(""), 1, kind, state={})


def test_without_a_file_only_updates_of_the_configured_task_are_answered(tmp_path):
    client = RealClient(tmp_path, None, task="synthetic")
    assert client.answers(asked_for(), None, "query")
    assert client.answers(asked_for(), 1)
    assert "mnist-5k" in client.why(asked_for(data={"name": "mnist-5k"}), 2)
    for kind in PRODUCTS:
        if kind != "train":
            assert kind in client.why(with_layer(""), 2, kind, state={})


@pytest.mark.parametrize("kind", ["train.default", "evaluate.default", "query.default"])
def test_another_name_for_a_message_opens_no_door(tmp_path, kind):
    """Flower calls the same function for `train` and `train.default`."""
    client = RealClient(tmp_path, ALL + TERMS + "secagg = true\n")
    assert kind in client.why(asked_for(federation={"secagg": True}), 1, kind)


def test_an_owner_who_wants_sums_gives_no_single_update(tmp_path):
    client = RealClient(tmp_path, TERMS + "secagg = true\n")
    assert "sums" in client.why(asked_for(), 1)
    assert "in the clear" in client.why(asked_for(federation={"secagg": True}), 1)


def test_a_client_without_a_folder_answers_nothing():
    own = {"partition-id": 0, "num-partitions": 4, "task": "synthetic"}
    context = Context(1, 2, own, RecordDict(), {"scenario": asked_for().text()})
    for kind in ("query", "train"):
        message = Message(RecordDict({"config": ConfigRecord({"server-round": 1})}), 2, kind)
        assert "FEDPRIV_STATE" in app(message, context).error.reason


# One sample, by dividing the data cleverly.


@pytest.mark.parametrize(
    "sections",
    [
        {"data": {"limit": 3}},
        {"data": {"limit": 511}},
        {"seed": 4},
        {"training": {"holdout": 0.5}},
        {"training": {"holdout": 0.5 + 1 / 128}},
        {"data": {"partition": "shards"}},
        {"data": {"partition": "dirichlet", "alpha": 0.9}},
    ],
    ids=str,
)
def test_the_second_division_of_the_data_is_refused(tmp_path, sections):
    """The gradients of n and of n + 1 samples differ by that of one sample."""
    client = RealClient(tmp_path)
    assert client.answers(asked_for(), 1)
    other = asked_for(**sections)
    assert "splits" in client.why(other, 1, run=2)
    assert "splits" in client.why(other, None, "query", run=2)
    assert client.answers(asked_for(), 1, run=3)


@pytest.mark.parametrize(
    "sections",
    [{"data": {"limit": 3}}, {"data": {"limit": 8}}, {"training": {"holdout": 0.99}}],
    ids=str,
)
def test_nobody_trains_on_a_few_samples(tmp_path, sections):
    assert not RealClient(tmp_path).answers(asked_for(**sections), 1)


def test_many_clients_do_not_make_a_share_of_one(tmp_path):
    client = RealClient(tmp_path)
    del client.own["num-partitions"]
    assert "samples" in client.why(asked_for(federation={"clients": 512}), 1)


@pytest.mark.parametrize("batch", [1, 7, 4097, 10**6])
def test_batches_are_as_large_as_the_owner_wants(tmp_path, batch):
    reason = RealClient(tmp_path).why(asked_for(training={"batch-size": batch}), 1)
    assert "8 to 4096" in reason


# Work without end.


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"training": {"batch-size": 2**40}}, "between 1 and 1000000"),
        ({"training": {"local-steps": 10**12}}, "between 1 and 1000000"),
        ({"training": {"local-epochs": 10**12}}, "between 1 and 1000000"),
        ({"training": {"local-steps": 10**6}}, "training steps"),
        ({"training": {"local-epochs": 10**6}}, "training steps"),
        ({"training": {"local-epochs": 9_000}}, "training steps"),
        (
            {
                "training": {"local-epochs": 9_000},
                "plugins": [{"name": "dp", "noise-multiplier": 1.0}],
            },
            "training steps",
        ),
        ({"model": {"name": "mlp", "hidden": [999_999_999]}}, "parameters"),
        ({"model": {"name": "mlp", "hidden": [10**6, 10**6]}}, "parameters"),
        ({"plugins": [{"name": "spn", "bits": 10**9}]}, "bits"),
        ({"plugins": [{"name": "dp", "noise-multiplier": float("inf")}]}, "finite"),
        ({"plugins": [{"name": "dp", "noise-multiplier": float("nan")}]}, "finite"),
        ({"data": {"name": "synthetic", "options": {"train": 10**9}}}, "tasks"),
        ({"name": "x" * 100_000}, "characters"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_work_without_end_is_refused_at_once(tmp_path, sections, words):
    client = RealClient(tmp_path, TERMS + 'extra-plugins = ["spn", "dp"]\n')
    sent = first_state(asked_for())
    assert words in client.why(unchecked(**sections), 1, state=sent)


def test_a_model_larger_than_the_terms_is_not_decoded(tmp_path):
    client = RealClient(tmp_path, "parameters = 1000\n" + TERMS)
    sent = {"w": torch.zeros(200_000)}
    assert "1000 parameters" in client.why(asked_for(), 1, state=sent)


def test_a_plugin_that_the_owner_did_not_name_is_refused(tmp_path):
    scenario = asked_for(plugins=[{"name": "noise", "scale": 0.1}])
    assert "'noise'" in RealClient(tmp_path).why(scenario, 1)
    assert RealClient(tmp_path, TERMS + 'extra-plugins = ["noise"]\n').answers(scenario, 1)


# Oracles.


def test_a_path_in_a_scenario_tells_nothing_of_files(tmp_path):
    there, absent = tmp_path / "there.json", tmp_path / "absent.json"
    there.write_text("{}")
    client = RealClient(tmp_path, TERMS + 'extra-plugins = ["augment"]\n')
    reasons = {
        client.why(asked_for(plugins=[{"name": "augment", "policy": str(path)}]), 1)
        for path in (there, absent)
    }
    assert len(reasons) == 1 and str(tmp_path) not in reasons.pop()


@pytest.mark.parametrize("name", ["there.toml", "absent.toml", "/etc/passwd", "nosuch"])
def test_a_scenario_is_read_from_no_file(tmp_path, name):
    (tmp_path / "there.toml").write_text("secret = 1\n")
    text = str(tmp_path / name) if name.endswith(".toml") else name
    reason = RealClient(tmp_path).why(text, 1, state={})
    assert reason == RealClient(tmp_path).why("absent", 1, state={})


def test_refusals_carry_no_figure_of_the_data(tmp_path):
    """Whatever is refused after the data were looked at: no count, shape or value of them."""
    client = RealClient(tmp_path, "splits = 99\nsamples = [100, 1000]\n" + TERMS)
    sent = {"w": torch.zeros(3)}
    own = [
        client.why(asked_for(data={"limit": 396}), 1, state=sent),
        client.why(asked_for(data={"limit": 10**6}), 2, state=sent),
        client.why(asked_for(data={"partition": "dirichlet", "alpha": 1e-6}), 3, state=sent),
        client.why(asked_for(), 4, state=sent),
    ]
    known = {"100", "1000"}  # the owner's own limits
    for reason in own:
        assert set(re.findall(r"\d+", reason)) <= known, reason
    assert own[-1] == PRIVATE


def test_a_broken_message_gets_no_stack_trace(tmp_path):
    client = RealClient(tmp_path)
    context = Context(1, 2, client.own, RecordDict(), {"scenario": asked_for().text()})
    without_arrays = RecordDict({"config": ConfigRecord({"server-round": 1})})
    assert app(Message(without_arrays, 2, "train"), context).error.reason == PRIVATE
    for text in ("{" + '"a":{' * 9_000, "{}}", '{"seed": "x"}', '{"seed": 1e999}'):
        context.run_config = {"scenario": text}
        reason = app(Message(RecordDict(), 2, "train"), context).error.reason
        assert reason and "Traceback" not in reason and len(reason) < 500


@pytest.mark.parametrize("norm", [float("nan"), float("inf"), 0.0, -1.0, "1", True])
def test_a_senseless_clipping_norm_is_refused(tmp_path, norm):
    client = RealClient(tmp_path)
    assert "clipping_norm" in client.why(asked_for(), 1, config={"clipping_norm": norm})
    assert client.answers(asked_for(), 2, config={"clipping_norm": 1.0})


def test_an_honest_run_is_answered(tmp_path):
    client = RealClient(tmp_path)
    scenario = asked_for(federation={"rounds": 3})
    assert client.answers(scenario, None, "query")
    state = None
    for number in (1, 2, 3):
        state = received(client.ask(scenario, number, state=state))


def test_settings_without_effect_are_no_other_division(tmp_path):
    """An owner whose client holds all of its data set need not care about a server's seed."""
    client = RealClient(tmp_path, TERMS, **{"num-partitions": 1})
    for number, sections in enumerate(
        ({}, {"seed": 9}, {"data": {"alpha": 0.1}}, {"federation": {"clients": 7}}), 1
    ):
        assert client.answers(asked_for(**sections), number)
    assert "splits" in client.why(asked_for(training={"holdout": 0.5}), 5)
