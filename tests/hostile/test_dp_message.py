"""A server that reads everything beside the noised update: counts, steps, refusals, NaN."""

import math
import re
from dataclasses import fields

import pytest
import torch
from messages import context_of
from worlds import UPDATES

from fedpriv.clients.app import trained
from fedpriv.clients.catalogue import PLUGINS, plugin_of, row_of
from fedpriv.clients.job import make_job, own_split
from fedpriv.clients.plugins.differential_privacy import Charged, DifferentialPrivacy
from fedpriv.clients.plugins.guard import Guard
from fedpriv.clients.protection.account import composed, noised_count, spent
from fedpriv.clients.protection.secret import secrets_of
from fedpriv.errors import BadOption, Refused
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.binding import kebab
from fedpriv.scenario.built import first_state
from fedpriv.wire import Memory

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
DATA = {"name": "synthetic", "options": {"train": 600, "test": 8, "size": 8}}


def world(*plugins, **sections):
    sections = {"data": DATA, "training": {"batch-size": 64, "local-steps": None}} | sections
    return from_tables(merged(UPDATES, {**sections, "plugins": list(plugins)}))


def dp(**options):
    return {"name": "dp", "noise-multiplier": 1.0, **options}


@pytest.fixture
def holding(monkeypatch):
    """Gives every client the first so many samples of the data set."""

    def give(count):
        shares = [torch.arange(count).numpy()] * 2
        monkeypatch.setattr("fedpriv.clients.job.shares_of", lambda *_: shares)

    return give


@pytest.mark.parametrize("declared", [True, False])
def test_512_and_513_samples_differ_in_nothing_but_the_update(holding, declared):
    plugin = dp(samples=512) if declared else dp()
    scenario, told = world(plugin), []
    context = context_of(scenario, secret_seed=None)
    for count in (512, 513, 100, 599):
        holding(count)
        _, _, figures = trained(scenario, first_state(scenario), 1, context)
        job = plugin_of(scenario.plugins).on_setup(
            make_job(scenario, first_state(scenario), 1, context)
        )
        _, rate, _ = job.kept(Charged).history[-1]
        figures.pop("epsilon")  # it grows from round to round, by what is compared here
        told.append((figures, rate, job.optimiser.expected_batch_size))
    assert all(one == told[0] for one in told)
    assert told[0][0].keys() == {"num-examples", "admitted-examples", "steps", "delta"}
    assert told[0][0]["num-examples"] == 1


def test_a_noised_count_tells_512_from_513_hardly_better_than_a_coin():
    """The best guess is right with a chance of e^ε / (1 + e^ε) = 0.525; on the exact count, 1."""
    scenario, right, tries = world(), 0, 2000
    for number in range(tries):
        context = context_of(scenario, secret_seed=None)
        count = 512 + number % 2
        draw = secrets_of(context).fresh()
        found = noised_count(count, 0.1, Memory(context.state), draw)
        again = noised_count(count, 0.1, Memory(context.state), secrets_of(context).fresh())
        assert found == again  # it is drawn once
        right += (found.samples > 512) == (count == 513)
    chance = math.exp(0.1) / (1 + math.exp(0.1))
    assert right / tries < chance + math.sqrt(math.log(1e9) / (2 * tries))


def test_the_count_is_in_the_account_and_outlives_a_run(holding):
    holding(512)
    scenario = world(dp())
    context = context_of(scenario, secret_seed=None)
    _, _, figures = trained(scenario, first_state(scenario), 1, context)
    count = Memory(context.state).facts("dp.count")
    history = [(1.0, min(1.0, 64 / count["samples"]), math.ceil(count["samples"] / 64))]
    assert figures["epsilon"] == pytest.approx(spent(history, 1e-5, "rdp") + 0.1)
    other = context_of(scenario, run=2, secret_seed=None)
    other.state = context.state
    for plugin in (dp(), dp(samples=512)):  # a number declared later does not take it back
        scenario = world(plugin)
        before = spent(composed(history, 1.0, *plan_of(plugin, count)), 1e-5, "rdp")
        _, _, figures = trained(scenario, first_state(scenario), 1, other)
        assert figures["epsilon"] == pytest.approx(before + 0.1)
        history = composed(history, 1.0, *plan_of(plugin, count))
    assert Memory(other.state).facts("dp.count") == count


def plan_of(plugin, count):
    samples = plugin.get("samples", count["samples"])
    return min(1.0, 64 / samples), math.ceil(samples / 64)


def test_settings_changed_to_and_fro_do_not_lengthen_the_account():
    history = []
    for number in range(100):
        history = composed(history, 1.0, 0.1 if number % 2 else 0.2, 3)
    assert sorted(history) == [(1.0, 0.1, 150), (1.0, 0.2, 150)]


def test_one_more_sample_moves_no_other_between_training_and_evaluation():
    scenario = world(dp(), training={"holdout": 0.3})
    numbers = torch.arange(400)
    trained_on, held = own_split(scenario, numbers)
    fewer_trained, fewer_held = own_split(scenario, numbers[numbers != 17])
    assert set(trained_on.tolist()) - {17} == set(fewer_trained.tolist())
    assert set(held.tolist()) - {17} == set(fewer_held.tolist())
    assert 60 < len(held) < 180


@pytest.mark.parametrize("mode", ["explicit", "hooks", "functorch", "ew", "ghost"])
def test_a_sample_that_overflows_counts_as_zero_and_spoils_nothing(mode):
    """A weight near the largest float makes one bright pixel infinite; clipping gives NaN then."""
    scenario = world(
        {"name": "dp", "noise-multiplier": 0.0, "max-grad-norm": 1.0, "grad-sample": mode},
        training={"batch-size": 6, "local-steps": 1, "lr": 0.1},
    )
    start = first_state(scenario)
    start["1.weight"][0, 5] = 3e38
    models = []
    for bright in (False, True):
        job = make_job(scenario, start, 1, context_of(scenario))
        job.x = job.x[:6].clone()
        job.x.flatten(1)[:, 5] = 0.0
        if bright:
            job.x.flatten(1)[2, 5] = 10.0
        job = plugin_of(scenario.plugins).on_setup(job)
        kept = torch.arange(6) if bright else torch.tensor([0, 1, 3, 4, 5])
        job.model.train()
        job.optimiser.zero_grad()
        job.loss(job.model(job.x[kept]), job.y[kept]).backward()
        job.optimiser.step()
        models.append({name: p.detach().clone() for name, p in job.shared.named_parameters()})
    for name in models[0]:
        assert models[1][name].isfinite().all()
        torch.testing.assert_close(models[0][name], models[1][name], rtol=1e-4, atol=1e-6)
    assert not torch.equal(models[0]["3.weight"], start["3.weight"])


@pytest.mark.parametrize("mode", ["explicit", "hooks", "ghost"])
def test_batches_without_a_sample_are_noised_like_others(mode):
    scenario = world(
        dp(samples=10**7, **{"grad-sample": mode}),
        training={"batch-size": 1, "local-steps": 3, "lr": 1.0},
    )
    context = context_of(scenario, secret_seed=None)
    _, update, figures = trained(scenario, first_state(scenario), 1, context)
    noise = torch.cat([value.flatten() for value in update.values()])
    assert figures["steps"] == 3 and noise.isfinite().all()
    assert float(noise.std()) == pytest.approx(math.sqrt(3), rel=0.2)  # of three steps, lr 1


def test_what_samples_do_to_a_buffer_stays_at_home():
    job = make_job(world(), first_state(world()), 1, context_of(world()))
    job.keep(Charged([(1.0, 0.1, 1)]))
    job.shared.register_buffer("seen", torch.zeros(3))
    update = {name: torch.ones(2) for name in ("1.weight", "seen")}
    released = DifferentialPrivacy(noise_multiplier=1.0).on_update(update, job)
    assert released["1.weight"].all() and not released["seen"].any()


def test_no_figure_of_samples_leaves_beside_dp():
    figures = {"partition-id": 1, "num-examples": 512, "loss": 0.4, "accuracy": 0.9, "own": 3.0}
    chain = plugin_of(world({"name": "guard"}, dp()).plugins)
    assert chain.accounted
    assert chain.on_figures(figures) == {"partition-id": 1, "num-examples": 1}
    plain = plugin_of(world({"name": "guard"}).plugins)
    assert not plain.accounted and plain.on_figures(figures) == figures


def refused(scenario, x=None, **changes):
    start = {**first_state(scenario), **changes}
    job = make_job(scenario, start, 1, context_of(scenario, secret_seed=None))
    if x is not None:
        job.x = torch.full_like(job.x, x)
    try:
        return plugin_of(scenario.plugins).on_setup(job).report.get("guard-alarms")
    except Refused as refusal:
        return str(refusal)


def test_a_guard_beside_dp_says_the_same_whatever_the_samples_are():
    scenario = world({"name": "guard"}, dp(samples=300))
    weight = first_state(scenario)["1.weight"]
    for sent in (weight, 30 * weight, weight[:1].expand_as(weight)):
        said = {refused(scenario, x, **{"1.weight": sent}) for x in (0.0, 5.0, math.nan)}
        assert len(said) == 1, said


def test_a_refusal_of_the_guard_has_no_figure_of_the_samples():
    scenario = world({"name": "guard"})
    bias = torch.tensor([60.0, 0.0, 0.0, 0.0])
    said = refused(scenario, **{"3.bias": bias})  # a very large loss, for who is not of class 0
    assert "samples" in said and "loss" not in said
    assert not re.search(r"\d\.\d", said)


FLOATS = [
    (name, field.name)
    for name in PLUGINS
    for field in fields(row_of(name).build)
    if "float" in str(field.type)
]
INFINITE = {("clip", "norm"), ("dp", "max_grad_norm")}  # where inf is the neutral value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "option"), FLOATS)
def test_only_finite_numbers_are_options(name, option, value):
    if (name, option) in INFINITE and value == math.inf:
        return
    given = {kebab(option): value if option != "weights" else (value,)}
    if name == "dp" and option not in ("epsilon", "noise_multiplier"):
        given["noise-multiplier"] = 1.0
    with pytest.raises(BadOption):
        PLUGINS.build(name, given)


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 1e6, 1e300])
def test_noise_for_which_accountants_never_end_is_refused(noise):
    with pytest.raises(BadOption, match="between 0.1 and 1000"):
        DifferentialPrivacy(noise_multiplier=noise)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 1e-3}, "Raise epsilon"),
        ({"noise-multiplier": 0.2, "accountant": "prv"}, "set dp's accountant to 'rdp'"),
    ],
)
def test_an_account_that_would_take_for_ever_is_refused(options, words):
    scenario = world({"name": "dp", "samples": 128, **options}, training={"local-steps": 500})
    with pytest.raises((BadOption, Refused), match=words):
        trained(scenario, first_state(scenario), 1, context_of(scenario, secret_seed=None))


def test_a_large_epsilon_has_the_least_noise():
    scenario = world({"name": "dp", "samples": 128, "epsilon": 1e6})
    job = make_job(scenario, first_state(scenario), 1, context_of(scenario))
    job = plugin_of(scenario.plugins).on_setup(job)
    assert job.kept(Charged).history[-1][0] == 0.1


def test_the_guard_of_a_client_without_dp_still_looks_at_samples():
    scenario = world()
    job = make_job(scenario, first_state(scenario), 1, context_of(scenario))
    job.x = torch.full_like(job.x, math.nan)
    plain = Guard(action="warn").on_setup(job).report["guard-alarms"]
    job.accounted = True
    assert plain >= Guard(action="warn").on_setup(job).report["guard-alarms"] == 0
