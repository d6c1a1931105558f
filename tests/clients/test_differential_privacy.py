"""DP-SGD: the accountant against Opacus by hand, budgets, batches, models that cannot."""

from dataclasses import replace

import pytest
import torch
from messages import answered, ask, context_of
from opacus.accountants import RDPAccountant

from fedpriv.clients.catalogue import PLUGINS, calibrated, plugin_of
from fedpriv.clients.job import make_job
from fedpriv.clients.plugins.differential_privacy import (
    Charged,
    DifferentialPrivacy,
    poisson,
    turns_of,
)
from fedpriv.clients.protection.account import PublicCount
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state, shares_of
from fedpriv.scenario.sections import Spec

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


def dp_scenario(tiny, federation=None, data=None, training=None, model=None, **dp):
    tables = tiny.plain()
    tables["plugins"] = [{"name": "dp", **dp}]
    tables["training"] = {"lr": 0.1, "batch-size": 8, **(training or {})}
    tables["federation"] = {**tables["federation"], **(federation or {})}
    tables["data"] = {**tables["data"], **(data or {})}
    return from_tables({**tables, "model": model or tables["model"]})


def test_epsilon_of_five_rounds_is_opacus_by_hand(tiny):
    samples = len(shares_of(tiny)[0])
    scenario = dp_scenario(tiny, samples=samples, **{"noise-multiplier": 1.1})
    context, state = context_of(scenario), None
    for server_round in range(1, 6):
        reply = ask(scenario, context, state, server_round)
        state = answered(reply)
    by_hand = RDPAccountant()
    for _ in range(5 * -(-samples // 8)):
        by_hand.step(noise_multiplier=1.1, sample_rate=8 / samples)
    assert reply.content["metrics"]["epsilon"] == pytest.approx(by_hand.get_epsilon(1e-5), rel=1e-6)


def test_clients_with_different_amounts_of_data_spend_differently(tiny):
    data = {"partition": "dirichlet", "alpha": 0.3}
    scenario = dp_scenario(
        tiny, data=data, training={"local-steps": 3}, **{"noise-multiplier": 1.0}
    )
    sizes = [len(share) for share in shares_of(scenario)]
    assert len(set(sizes)) > 1
    spent = [
        ask(scenario, context_of(scenario, partition, secret_seed=5 + partition)).content[
            "metrics"
        ]["epsilon"]
        for partition in range(4)
    ]
    assert [e for _, e in sorted(zip(sizes, spent, strict=True))] == sorted(spent, reverse=True)


def test_a_target_is_met_at_the_last_round_and_not_passed(tiny):
    scenario = dp_scenario(tiny, epsilon=3.0, training={"local-steps": 2})
    context = context_of(scenario)
    spent = [
        ask(scenario, context, server_round=r).content["metrics"]["epsilon"] for r in (1, 2, 3)
    ]
    assert spent == sorted(spent) and 2.5 < spent[-1] <= 3.0
    refused = ask(scenario, context, server_round=4)
    assert refused.has_error()
    assert "budget of 3" in refused.error.reason and "Round 4" in refused.error.reason


def test_a_refused_round_spends_nothing(tiny):
    scenario = dp_scenario(tiny, budget=1e-3, **{"noise-multiplier": 1.0})
    context = context_of(scenario)
    assert all(ask(scenario, context, server_round=r).has_error() for r in (1, 2))
    assert "fedpriv.dp" not in context.state


def test_turns_count_how_often_a_client_is_asked(tiny):
    assert turns_of(dp_scenario(tiny, {"rounds": 10, "fraction": 0.5}, epsilon=1.0)) == 5
    robin = {"rounds": 10, "strategy": "round-robin", "clients": 4}
    assert turns_of(dp_scenario(tiny, robin, epsilon=1.0)) == 3


@pytest.mark.parametrize("training", [{}, {"holdout": 0.3}, {"local-steps": 4}])
def test_one_exposed_round_gets_the_noise_of_the_whole_training(tiny, training):
    def noise_in(scenario, spec):
        plugin = plugin_of([spec])
        smallest = min(range(4), key=lambda p: len(shares_of(scenario)[p]))
        context = context_of(scenario, smallest)
        job = plugin.on_setup(make_job(scenario, first_state(scenario), 1, context))
        return job.kept(Charged).history[-1][0]

    dp = {"epsilon": 3.0, "budget": 3.0, "max-grad-norm": 0.5}
    spec = Spec("dp", {**dp, "samples": min(map(len, shares_of(tiny)))})
    run = dp_scenario(tiny, {"rounds": 10}, training=training, **spec.options)
    row = calibrated(spec, run)
    own = {"name", "max-grad-norm", "noise-multiplier", "samples"}
    assert row.keys() == own and row["name"] == "dp"
    noised = noise_in(run, Spec("dp", dp))  # of a number of samples that the client drew
    assert row["noise-multiplier"] == pytest.approx(noised, rel=0.15)
    assert row["noise-multiplier"] == noise_in(run, spec)
    options = {key: value for key, value in row.items() if key != "name"}
    exposed = dp_scenario(
        tiny, {"rounds": 1}, training={"batch-size": 1, "local-steps": 1}, **options
    )
    assert noise_in(exposed, Spec("dp", options)) == row["noise-multiplier"]
    assert noise_in(exposed, spec) < 0.7 * row["noise-multiplier"]  # which is why


def test_a_multiplier_is_kept_and_its_budget_dropped(tiny):
    spec = Spec("dp", {"noise_multiplier": 1.5, "budget": 2.0, "delta": 1e-6})
    assert DifferentialPrivacy(noise_multiplier=1.5).as_in_training({}, tiny) == {
        "noise-multiplier": 1.5
    }
    row = calibrated(spec, tiny)
    assert PLUGINS.build("dp", {key: row[key] for key in row.keys() - {"name"}}).budget is None
    assert calibrated(Spec("clip", {"norm": 2.0}), tiny) == {"name": "clip", "norm": 2.0}


def test_poisson_batches_vary_around_the_batch_size_and_may_be_empty(tiny):
    scenario = dp_scenario(tiny, **{"noise-multiplier": 1.0})
    job = make_job(scenario, first_state(scenario), 1, context_of(scenario))
    sizes = torch.tensor([len(batch) for batch in poisson(8 / len(job.x), 400)(job)]).float()
    assert abs(sizes.mean() - 8) < 0.6 and sizes.std() > 2
    few = dp_scenario(
        tiny, training={"batch-size": 1, "local-steps": 6}, **{"noise-multiplier": 1.0}
    )
    reply = ask(few, context_of(few))
    assert not reply.has_error()


@pytest.mark.parametrize("mode", ["explicit", "hooks", "functorch", "ew", "ghost"])
def test_all_ways_to_clip_give_the_same_model(tiny, mode):
    training = {"local-steps": 3}
    models = []
    for grad_sample in ("hooks", mode):
        scenario = dp_scenario(
            tiny, training=training, **{"noise-multiplier": 0.5, "grad-sample": grad_sample}
        )
        reply = ask(scenario, context_of(scenario))
        models.append(answered(reply))
    for key in models[0]:
        torch.testing.assert_close(models[0][key], models[1][key], rtol=1e-4, atol=1e-5)


def test_a_simulation_takes_the_engine_and_a_real_client_measures(tiny, monkeypatch):
    from fedpriv.clients.protection import fastest

    def measured(model, shape, batch):
        return f"measured at {batch}"

    monkeypatch.setattr(fastest, "fastest", measured)
    plugin = DifferentialPrivacy(noise_multiplier=1.0, samples=400)
    scenario = dp_scenario(tiny, training={"batch-size": 32}, **{"noise-multiplier": 1.0})
    for seed, steps, mode in (
        (1, 100, "explicit"),
        (None, 100, "measured at 32"),
        (None, 3, "explicit"),
    ):
        own = replace(scenario, training=replace(scenario.training, local_steps=steps))
        job = make_job(own, first_state(own), 1, context_of(own, secret_seed=seed))
        assert plugin.mode(job, plugin.plan(own, PublicCount(400))) == mode


def test_batchnorm_is_explained_and_replaced_on_request(tiny):
    model = {"name": "convnet", "width": 4}
    data = {"name": "synthetic"}
    scenario = dp_scenario(tiny, data=data, model=model, **{"noise-multiplier": 1.0})
    reply = ask(scenario, context_of(scenario))
    assert reply.has_error()
    assert "BatchNorm" in reply.error.reason and 'batchnorm = "group"' in reply.error.reason
    mended = dp_scenario(
        tiny,
        data=data,
        model={**model, "batchnorm": "group"},
        training={"local-steps": 1},
        **{"noise-multiplier": 1.0},
    )
    assert not any("running" in name for name in first_state(mended))
    assert not ask(mended, context_of(mended)).has_error()


def test_the_exact_training_loss_stays_at_home(tiny):
    scenario = dp_scenario(tiny, training={"local-steps": 1}, **{"noise-multiplier": 1.0})
    assert "loss" not in ask(scenario, context_of(scenario)).content["metrics"]
