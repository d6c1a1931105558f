"""`evaluate` under an ε, and a server that asks often, sends odd models or knows most samples."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from messages import ask
from real_clients import TERMS, RealClient, asked_for
from scipy.optimize import brentq
from scipy.stats import norm
from torch import nn
from worlds import UPDATES

from fedpriv.cipher import CipherDraws
from fedpriv.clients.plugins.differential_privacy import DifferentialPrivacy
from fedpriv.clients.protection.account import PublicCount, spent
from fedpriv.clients.protection.figures import CEILING, REACH, bounded_sums, private_figures
from fedpriv.clients.protection.ledger import ledger_in
from fedpriv.errors import BadOption
from fedpriv.scenario import from_tables, merged
from fedpriv.wire import Memory

HALF = {"holdout": 0.5}
MESSAGES = 'messages = ["train", "evaluate"]\n'


def dp(**options):
    rows = {"name": "dp", "noise-multiplier": 1.0, "samples": 128, **options}
    return "[[plugins]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in rows.items())


def figures(reply):
    assert not reply.has_error(), reply.error.reason
    return dict(reply.content["metrics"])


class NoNoise:
    """Draws of zeros, so that the sums themselves are seen."""

    def normal(self, shape, dtype=torch.float32):
        return torch.zeros(tuple(shape), dtype=torch.float64)


class ThisNoise(NoNoise):
    """Draws whose first, second or third value is one standard deviation."""

    def __init__(self, place):
        self.place = place

    def normal(self, shape, dtype=torch.float32):
        found = super().normal(shape)
        found[self.place] = 1.0
        return found


def test_an_owner_who_asks_for_noise_on_evaluations_gets_it(tmp_path):
    client = RealClient(tmp_path, MESSAGES + TERMS + dp(**{"evaluation-noise": 5.0}))
    found = figures(client.ask(asked_for(training=HALF), 1, "evaluate"))
    assert found.keys() == {"loss", "accuracy", "num-examples", "epsilon", "delta"}
    assert found["num-examples"] == 1
    assert 0 <= found["accuracy"] <= 1 and 0 <= found["loss"] <= CEILING


@pytest.mark.parametrize(
    "terms",
    [
        TERMS + dp(**{"evaluation-noise": 5.0}),  # `evaluate` is not among the messages
        MESSAGES + TERMS + dp(),
        MESSAGES + 'extra-plugins = ["dp"]\n' + TERMS,  # the server brings dp, and its options
        MESSAGES + 'extra-plugins = ["dp"]\n' + TERMS + '[[plugins]]\nname = "guard"\n',
    ],
)
def test_nobody_else_can_ask_for_figures_under_an_epsilon(tmp_path, terms):
    plugins = [{"name": "dp", "noise-multiplier": 1.0, "samples": 128, "evaluation-noise": 5.0}]
    scenario = asked_for(training=HALF, plugins=plugins)
    assert not RealClient(tmp_path, terms).answers(scenario, 1, "evaluate")


def test_a_server_cannot_lower_the_owners_noise(tmp_path):
    client = RealClient(tmp_path, MESSAGES + TERMS + dp(**{"evaluation-noise": 50.0}))
    plugins = [{"name": "dp", "noise-multiplier": 1.0, "evaluation-noise": 0.1}]
    found = figures(client.ask(asked_for(training=HALF, plugins=plugins), 1, "evaluate"))
    assert found["epsilon"] == pytest.approx(spent([(50.0, 1.0, 1)], 1e-5, "rdp"))


def by_renyi(noise, answers):
    """ε at δ = 1e-5 of Gaussian answers, from D_α = α / (2 σ²) (Mironov 2017, Balle 2020)."""
    orders = np.array([*np.arange(1.1, 11, 0.1), *range(12, 64)])
    divergence = answers * orders / (2 * noise**2)
    terms = np.log((orders - 1) / orders) - np.log(1e-5 * orders) / (orders - 1)
    return float((divergence + terms).min())


def exactly(noise, answers):
    """The same from δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), μ = √n / σ (Balle & Wang 2018)."""
    shift = math.sqrt(answers) / noise

    def delta(epsilon):
        tail = norm.cdf(-shift / 2 - epsilon / shift)
        return norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * tail

    return brentq(lambda epsilon: delta(epsilon) - 1e-5, 0, 50)


@pytest.mark.parametrize(("accountant", "own"), [("rdp", by_renyi), ("prv", exactly)])
@pytest.mark.parametrize("noise", [2.0, 4.0, 30.0])
def test_the_epsilon_of_evaluations_equals_one_worked_out_here(tmp_path, accountant, own, noise):
    options = {"evaluation-noise": noise, "accountant": accountant}
    client = RealClient(tmp_path, MESSAGES + TERMS + dp(**options))
    for number in range(1, 7):
        found = figures(client.ask(asked_for(training=HALF), number, "evaluate"))
    assert found["epsilon"] == pytest.approx(own(noise, 6), rel=0.01)


def test_training_and_evaluation_have_one_budget(tmp_path):
    terms = dp(**{"noise-multiplier": 2.0, "evaluation-noise": 6.0, "budget": 4.0})
    client = RealClient(tmp_path, MESSAGES + "rounds-per-day = 1000\n" + TERMS + terms)
    scenario, told, answered = asked_for(training=HALF), [], 0
    for number in range(1, 30):
        for kind in ("train", "evaluate"):
            reply = client.ask(scenario, number, kind, run=1 + number // 4)
            if reply.has_error():
                assert "budget of 4" in reply.error.reason
            else:
                told.append(figures(reply)["epsilon"])
                answered += kind == "evaluate"
    assert 0 < answered < 29
    assert told == sorted(told) and len(set(told)) == len(told) and told[-1] <= 4.0
    assert not client.answers(scenario, 1, "evaluate", run=99)


def test_it_is_charged_on_the_disk_before_it_leaves(tmp_path, monkeypatch):
    """The power fails while the reply is made: the next process finds the charge."""
    client = RealClient(tmp_path, MESSAGES + TERMS + dp(**{"evaluation-noise": 5.0}))
    monkeypatch.setattr("fedpriv.clients.app.reply", lambda *_: 1 / 0)
    assert not client.answers(asked_for(training=HALF), 1, "evaluate")
    with ledger_in(client.folder) as (records, _):
        kept = Memory(records).facts("dp")
    assert (kept["noise"], kept["rate"], kept["steps"]) == ([5.0], [1.0], [1])


def test_two_answers_have_no_noise_in_common(tmp_path):
    options = {"evaluation-noise": 20.0}
    client = RealClient(tmp_path, MESSAGES + TERMS + dp(**options))
    scenario = asked_for(training=HALF)
    found = [figures(client.ask(scenario, 1, "evaluate", run=run)) for run in range(8)]
    assert len({(one["loss"], one["accuracy"]) for one in found}) > 1


def linear(weight=1.0):
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[weight], [-weight]]))
        model.bias.zero_()
    return model


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e30, -1e30, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("weight", [1.0, 3e38, math.nan, math.inf])
@pytest.mark.parametrize("others", [0, 1, 2, 7, 100])
def test_one_sample_more_moves_the_sums_by_what_the_noise_is_scaled_by(value, weight, others):
    model = linear(weight)
    x = torch.linspace(-2, 2, others).view(-1, 1)
    y = torch.zeros(others, dtype=torch.long)
    more = torch.cat([x, torch.tensor([[value]])])
    for label in (0, 1):
        moved = bounded_sums(model, more, torch.cat([y, torch.tensor([label])])) - bounded_sums(
            model, x, y
        )
        assert float(moved.norm()) <= REACH * (1 + 1e-8)


class LooksAround(nn.Module):
    """What it says of a sample depends on how many samples it is shown.

    A linear layer does so too, in the last bit: one, two and many samples are added up in another
    order. A server can choose weights that make much of the last bit.
    """

    def forward(self, x):
        return torch.cat([x, -x], dim=1) * (-1) ** len(x)


def test_a_sample_does_not_change_what_is_said_of_the_others():
    x, y = torch.full((40, 1), 9.0), torch.zeros(40, dtype=torch.long)
    whole = [bounded_sums(LooksAround(), x[:n], y[:n]) for n in range(41)]
    assert max(float((b - a).norm()) for a, b in pairwise(whole)) <= REACH * (1 + 1e-8)


def test_the_noise_has_the_scale_that_is_accounted():
    """Each sum moves by noise · REACH for one standard deviation; the third is half the count."""
    count, noise = 1000, 40.0
    sums = bounded_sums(linear(), torch.zeros(count, 1), torch.arange(count) % 2)
    quiet = private_figures(sums, noise, NoNoise())
    assert quiet == (pytest.approx(math.log(2), abs=1e-4), 0.5)
    loss, _ = private_figures(sums, noise, ThisNoise(0))
    _, accuracy = private_figures(sums, noise, ThisNoise(1))
    fewer, _ = private_figures(sums, noise, ThisNoise(2))
    one = noise * REACH
    assert loss - quiet[0] == pytest.approx(CEILING * one / count, abs=2e-4)
    assert accuracy - 0.5 == pytest.approx(one / count, abs=2e-4)
    off = count * (math.log(2) / CEILING - 0.5)
    assert fewer == pytest.approx(CEILING * (0.5 + off / (count + 2 * one)), abs=2e-4)


def test_who_knows_all_samples_but_one_hardly_sees_that_one():
    """The best of many tests between 63 and 64 samples, the last of which has the largest loss.

    With noise 2 the sums differ by at most half a standard deviation, so that no test is right with
    a chance above Φ(1/4) = 0.599. With hardly any noise one is always right.
    """
    model, x, y = linear(50.0), torch.ones(64, 1), torch.zeros(64, dtype=torch.long)
    y[-1] = 1
    both = bounded_sums(model, x[:-1], y[:-1]), bounded_sums(model, x, y)
    tries, angles, draw = 20_000, np.linspace(0, np.pi, 60), CipherDraws(bytes(32))

    def right(noise):
        told = np.array([private_figures(both[n % 2], noise, draw) for n in range(tries)])
        inside = np.arange(tries) % 2 == 1
        found = 0.5
        for angle in angles:
            score = told @ [math.cos(angle) / CEILING, math.sin(angle)]
            guess = score > np.median(score)
            found = max(found, abs((guess == inside).mean() - 0.5) + 0.5)
        return found

    assert right(1e-3) > 0.999
    assert right(2.0) < norm.cdf(0.25) + math.sqrt(math.log(2e9 * len(angles)) / (2 * tries))


def test_a_client_without_held_out_samples_answers_with_noise():
    none = bounded_sums(linear(), torch.zeros(0, 1), torch.zeros(0, dtype=torch.long))
    assert torch.equal(none, torch.zeros(3, dtype=torch.float64))
    draw = CipherDraws(bytes(32))
    told = {private_figures(none, 5.0, draw) for _ in range(20)}
    assert len(told) > 1 and all(0 <= loss <= CEILING and 0 <= part <= 1 for loss, part in told)


@pytest.mark.parametrize("accountant", ["rdp", "prv"])
def test_an_epsilon_is_shared_by_training_and_evaluation(accountant):
    """The whole run, evaluations included, spends what was asked for and hardly less."""
    options = {"epsilon": 4.0, "samples": 128, "accountant": accountant}
    training = {"holdout": 0.25, "batch-size": 32, "local-steps": 4}
    scenario = from_tables(merged(UPDATES, {"training": training}))
    plugin, count = DifferentialPrivacy(**options, evaluation_noise=20.0), PublicCount(128)
    plan, rounds = plugin.plan(scenario, count), scenario.federation.rounds
    history = [(20.0, 1.0, rounds), (plan.noise, plan.rate, plan.steps * rounds)]
    assert 3.9 < spent(history, 1e-5, accountant) <= 4.0
    assert plan.noise > DifferentialPrivacy(**options).plan(scenario, count).noise
    with pytest.raises(BadOption, match="evaluation-noise"):
        DifferentialPrivacy(**options, evaluation_noise=0.2).plan(scenario, count)


@pytest.mark.parametrize("noise", [0.0, -1.0, 0.01, 1e4])
def test_evaluation_noise_has_limits(noise):
    with pytest.raises(BadOption, match="evaluation-noise"):
        DifferentialPrivacy(noise_multiplier=1.0, evaluation_noise=noise)


def test_a_simulation_repeats_its_noise():
    plugins = [{"name": "dp", "noise-multiplier": 1.0, "samples": 64, "evaluation-noise": 5.0}]
    scenario = from_tables(merged(UPDATES, {"plugins": plugins, "training": HALF}))
    first, second = (figures(ask(scenario, kind="evaluate")) for _ in range(2))
    assert first == second and first["epsilon"] > 0
