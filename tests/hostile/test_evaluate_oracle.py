"""Exact losses of chosen models are an oracle: 794 questions once gave a picture at 130 dB."""

import json

import pytest
import torch
from real_clients import DP, TERMS, RealClient, asked_for
from torch import nn

from fedpriv.cipher import CipherDraws
from fedpriv.clients.protection.figures import CEILING, coarse_figures
from fedpriv.clients.protection.terms import PRODUCTS

ALLOWED = f"messages = {json.dumps(list(PRODUCTS))}\n" + TERMS
HALF = {"holdout": 0.5}


def figures(reply):
    assert not reply.has_error(), reply.error.reason
    return dict(reply.content["metrics"])


@pytest.mark.parametrize("terms", [TERMS, TERMS + DP, ALLOWED + DP])
def test_evaluation_is_refused_unless_the_owner_allows_it_and_no_epsilon_is_claimed(
    tmp_path, terms
):
    assert not RealClient(tmp_path, terms).answers(asked_for(training=HALF), 1, "evaluate")


def test_a_server_that_asks_for_dp_itself_gets_no_figures_beside_it(tmp_path):
    client = RealClient(tmp_path, 'extra-plugins = ["dp"]\n' + ALLOWED)
    plugins = [{"name": "dp", "noise-multiplier": 1.0}]
    scenario = asked_for(training=HALF, plugins=plugins)
    assert "dp" in client.why(scenario, 1, "evaluate")


@pytest.mark.parametrize("held", [1, 2, 49])
def test_few_samples_are_not_evaluated(tmp_path, held):
    scenario = asked_for(training={"holdout": held / 128})
    assert "samples" in RealClient(tmp_path, ALLOWED).why(scenario, 1, "evaluate")


def test_two_hold_outs_cannot_be_subtracted(tmp_path):
    client = RealClient(tmp_path, ALLOWED)
    assert client.answers(asked_for(training=HALF), 1, "evaluate")
    more = asked_for(training={"holdout": 0.5 + 1 / 128})
    assert "splits" in client.why(more, 1, "evaluate", run=2)


def test_a_day_has_so_many_answers_whatever_the_run(tmp_path):
    client = RealClient(tmp_path, "rounds-per-day = 5\n" + ALLOWED)
    scenario = asked_for(training=HALF)
    got = [client.answers(scenario, 1, "evaluate", run=run) for run in range(8)]
    assert got == [True] * 5 + [False] * 3


def test_the_same_question_has_no_exact_answer(tmp_path):
    client = RealClient(tmp_path, ALLOWED)
    scenario = asked_for(training=HALF)
    found = [figures(client.ask(scenario, 1, "evaluate", run=run)) for run in range(20)]
    # Noise of 5 samples in 64: two answers agree to two digits with a chance below 1 in 15.
    assert len({one["loss"] for one in found}) > 1
    assert len({one["accuracy"] for one in found}) > 1
    assert all(one["loss"] == round(one["loss"], 2) for one in found)


@pytest.mark.parametrize("value", [1e30, -1e30, float("nan"), float("inf")])
def test_one_sample_moves_the_figures_by_its_share_at_most(value):
    """A model that is blind but for one sample: its loss does not stand out."""
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        model.bias.zero_()
    x, y = torch.zeros(100, 1), torch.zeros(100, dtype=torch.long)
    loss, accuracy = coarse_figures(model, x, y, 0.0, CipherDraws(bytes(32)))
    x[0] = value
    other_loss, other_accuracy = coarse_figures(model, x, y, 0.0, CipherDraws(bytes(32)))
    assert abs(loss - other_loss) <= CEILING / 100 + 0.01
    assert abs(accuracy - other_accuracy) <= 1 / 100 + 0.01


def test_the_noise_is_as_large_as_said():
    """In units of one sample's share of the accuracy."""
    model, count = nn.Linear(1, 2), 1000
    x, y = torch.zeros(count, 1), torch.arange(count) % 2
    draw = CipherDraws(bytes(32))
    drawn = [coarse_figures(model, x, y, 40.0, draw)[1] - 0.5 for _ in range(400)]
    spread = torch.tensor(drawn).std().item() * count
    assert 34 < spread < 46  # 40, with a standard error of 1.4


def test_standalone_figures_are_rounded(tmp_path):
    client = RealClient(tmp_path, ALLOWED)
    found = figures(client.ask(asked_for(), 1, "train.standalone"))
    assert all(value == round(value, 2) for value in found.values())


def test_the_training_loss_is_no_oracle_beside_an_update(tmp_path):
    """One full batch, one step: the loss is the exact mean over all samples of a chosen model."""
    full = asked_for(training={"batch-size": 128, "local-steps": 1})
    assert "loss" not in figures(RealClient(tmp_path).ask(full, 1))
    assert "loss" in figures(RealClient(tmp_path, TERMS + "tell-loss = true\n").ask(full, 2))


def test_a_simulation_still_has_exact_figures(tmp_path):
    client = RealClient(tmp_path, None, **{"secret-seed": 1})
    scenario = asked_for(training=HALF)
    first, second = (figures(client.ask(scenario, 1, "evaluate")) for _ in range(2))
    assert first == second and first["loss"] != round(first["loss"], 2)
