"""Attacks on user-level DP: take the noise out again, let few answer, lie, restart the account."""

import math
import random

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from scipy.optimize import brentq
from scipy.stats import norm as normal
from shows import quiet

from fedpriv.errors import BadOption, BadScenario
from fedpriv.rng import seed_of
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.federation.run import simulate
from fedpriv.state import norm
from fedpriv.strategies.catalogue import STRATEGIES
from fedpriv.strategies.noise import system_noise
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.secagg import CLIP, SecureGrid, check_secagg
from fedpriv.strategies.user_epsilon import user_epsilon
from fedpriv.wire import record_of, reply, state_in

SIZE = 4000
START = {"w": torch.zeros(SIZE), "steps": torch.tensor(7)}


class Told(Roster):
    """A roster that is told who is there."""

    def nodes(self, grid):
        return list(range(self.clients))

    def partition(self, node):
        return node


def strategy(name="user-dp-server", clients=6, **options):
    found = STRATEGIES.build(name, options, roster=Told(clients), seed=3)
    found.configure_train(1, record_of(START), ConfigRecord(), None)
    return found


def answers(*updates, steps=7, **figures):
    sent = [Message(RecordDict(), node, "train") for node in range(len(updates))]
    states = [{"w": START["w"] + update, "steps": torch.tensor(steps)} for update in updates]
    figures = {"num-examples": 9, **figures}
    return [reply(message, state, figures) for message, state in zip(sent, states, strict=True)]


def released(found, replies, server_round=1):
    arrays, _ = found.aggregate_train(server_round, replies)
    return state_in(arrays)


UPDATES = [torch.full((SIZE,), 0.01 * (node + 1)) for node in range(6)]


def test_the_noise_is_no_function_of_the_seed(chance_bound):
    """The old noise came from numpy's global stream, seeded from the public scenario."""
    found = []
    for _ in range(2):
        seed = seed_of(3, "server", 1)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        found.append(released(strategy(**{"noise-multiplier": 50.0}), answers(*UPDATES))["w"])
    means = [values.double() / values.double().std() for values in found]
    assert abs(float((means[0] * means[1]).mean())) < 2 * chance_bound(SIZE)
    np.random.seed(seed_of(3, "server", 1) % 2**32)
    again = torch.from_numpy(np.random.normal(0, 1, SIZE))
    assert abs(float((means[0] * again).mean())) < 2 * chance_bound(SIZE)


def test_system_noise_is_gaussian_and_fresh():
    first, second = system_noise(1, 200_000), system_noise(1, 200_000)
    assert not torch.equal(first, second)
    for moment, truth, spread in ((1, 0, 1.0), (2, 1, 2.0), (3, 0, 15.0), (4, 3, 96.0)):
        # The mean of a power over n draws has this variance over n; 8 deviations are < 1e-14.
        assert abs(float(first.pow(moment).mean()) - truth) < 8 * math.sqrt(spread / 200_000)


@pytest.mark.parametrize("answering", [1, 2, 6])
def test_noise_is_scaled_for_those_that_answered(answering):
    """With 1 of 6 answering, noise for 6 gave ε 11.6 where 1.66 was said."""
    found = strategy(**{"noise-multiplier": 3.0, "clipping-norm": 0.5})
    values = released(found, answers(*UPDATES[:answering]))["w"]
    expected = 3.0 * 0.5 / answering  # 9 standard deviations of a standard deviation
    assert float(values.double().std()) == pytest.approx(expected, rel=9 / math.sqrt(2 * SIZE))


def gaussian_epsilon(z, releases, delta):
    """The exact ε: k Gaussian releases are one with √k / z (Balle & Wang 2018, theorem 8)."""
    mu = math.sqrt(releases) / z

    def excess(epsilon):
        return (
            normal.cdf(mu / 2 - epsilon / mu)
            - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu)
            - delta
        )

    return brentq(excess, 0, 600)


def convolved_epsilon(z, releases, delta, step=2e-3):
    """The same from the distribution of the privacy loss: a histogram, convolved with itself."""
    mu = 1 / z
    reach = releases * mu**2 / 2 + 9 * math.sqrt(releases) * mu
    loss = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    edges = np.append(loss - step / 2, loss[-1] + step / 2)
    histogram = np.diff(normal.cdf(edges, mu**2 / 2, mu))
    size = 2 ** math.ceil(math.log2(len(loss)) + 1)
    shifted = np.zeros(size)
    shifted[np.round(loss / step).astype(int) % size] = histogram
    total = np.fft.irfft(np.fft.rfft(shifted) ** releases, size)
    places = np.fft.fftfreq(size, 1 / size) * step

    def excess(epsilon):
        above = places > epsilon
        return float((total[above] * -np.expm1(epsilon - places[above])).sum()) - delta

    return brentq(excess, 0, reach)


@pytest.mark.parametrize(
    ("z", "releases", "delta"),
    [(1.0, 20, 1e-5), (2.0, 2, 1e-5), (0.7, 1, 1e-6), (5.0, 1000, 1e-5), (10.0, 50, 1e-4)],
)
def test_epsilon_is_that_of_two_independent_computations(z, releases, delta):
    spent = user_epsilon(z, releases, delta)
    assert spent == pytest.approx(gaussian_epsilon(z, releases, delta), rel=0.01)
    assert spent == pytest.approx(convolved_epsilon(z, releases, delta), rel=0.01)


def test_so_little_noise_has_no_epsilon():
    found = strategy(**{"noise-multiplier": 1e-6})
    released(found, answers(*UPDATES))
    account = found.account()
    assert "user-epsilon" not in account and not account["user-privacy"]["protects"]


@pytest.mark.parametrize("name", ["user-dp-server", "user-dp-client"])
def test_a_client_that_does_not_clip_moves_the_mean_by_one_norm_at_most(name):
    honest = [torch.zeros(SIZE)] * 3
    found = strategy(name, **{"noise-multiplier": 0.0, "clipping-norm": 0.5})
    moved = released(found, answers(*honest, torch.full((SIZE,), 1e6)))
    assert norm({"w": moved["w"]}) == pytest.approx(0.5 / 4)


def test_a_counter_is_the_servers_not_the_first_clients():
    found = strategy(**{"noise-multiplier": 1.0})
    assert released(found, answers(*UPDATES, steps=513))["steps"] == 7


def test_the_adaptive_count_and_sum_are_one_gaussian_release():
    found = strategy("user-dp-adaptive", clients=100, **{"noise-multiplier": 4.0})
    assert found.count_noise == 5.0
    assert found.sum_noise**-2 + (2 * found.count_noise) ** -2 == pytest.approx(4.0**-2)


def test_a_client_that_hides_whether_it_clipped_is_left_out():
    found = strategy("user-dp-adaptive")
    assert "norm_bit" in found.why_unfit(answers(UPDATES[0])[0])
    assert "norm_bit" in found.why_unfit(answers(UPDATES[0], norm_bit=1e9)[0])
    assert found.why_unfit(answers(UPDATES[0], norm_bit=1)[0]) is None


@pytest.mark.parametrize("name", ["user-dp-server", "user-dp-adaptive"])
def test_sums_that_the_server_cannot_clip_are_refused(tiny, name):
    tables = tiny.plain()
    tables["federation"] = {**tables["federation"], "strategy": name, "secagg": True}
    with pytest.raises(BadScenario, match=name):
        check_secagg(from_tables(tables))


def test_behind_secure_aggregation_noise_covers_the_heaviest_client():
    """The sum is weighted: a client with half of all samples has half of the mean."""
    grid = SecureGrid(None, heaviest=300.0)
    grid.examples = {0: 300, 1: 200, 2: 100}
    found = strategy("user-dp-client", clients=3, **{"noise-multiplier": 3.0})
    found._grid = grid
    same = [UPDATES[0]] * 3
    values = released(found, answers(*same))["w"].double() - 0.01
    rounding = 2 * CLIP / 2**26 * math.sqrt(SIZE) * 300 / 600
    expected = 3.0 * (0.5 + rounding)
    assert float(values.std()) == pytest.approx(expected, rel=9 / math.sqrt(2 * SIZE))


def test_clients_that_clip_are_summed_and_accounted(tiny, tmp_path):
    tables = tiny.plain() | {"strategy": {"noise-multiplier": 2.0}}
    chosen = {"strategy": "user-dp-client", "secagg": True, "rounds": 1}
    tables["federation"] = {**tables["federation"], **chosen}
    folder = RunFolder(tmp_path / "run")
    simulate(from_tables(tables), folder, quiet())
    (record,) = folder.rounds()
    assert record["clients"] == 4
    assert record["user-epsilon"] == pytest.approx(gaussian_epsilon(2.0, 1, 1e-5), rel=0.01)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("option", ["noise-multiplier", "clipping-norm", "delta"])
def test_numbers_that_are_none_are_refused(option, value):
    with pytest.raises(BadOption, match="finite"):
        strategy(**{option: value})


def scenario(tiny, rounds=4, **strategy):
    tables = tiny.plain() | {"strategy": strategy, "training": {"lr": 0.1, "local-steps": 1}}
    federation = {"strategy": "user-dp-adaptive", "rounds": rounds, "clients": 3}
    tables["federation"] = {**tables["federation"], **federation}
    return from_tables(tables)


def test_a_resumed_run_goes_on_with_its_account_and_its_norm(tiny, tmp_path):
    wanted = scenario(tiny, **{"noise-multiplier": 2.0})
    whole, halves = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "halves")
    simulate(wanted, whole, quiet())
    simulate(wanted, halves, quiet(), going_on=lambda record: record["round"] < 2)
    simulate(wanted, halves, quiet(), resume=True)
    spent = [record["user-epsilon"] for record in halves.rounds()]
    assert spent == [pytest.approx(gaussian_epsilon(2.0, k, 1e-5), rel=0.01) for k in (1, 2, 3, 4)]
    assert [r["user-privacy"] for r in halves.rounds()] == [
        r["user-privacy"] for r in whole.rounds()
    ]
    first, second = whole.checkpoint_state(), halves.checkpoint_state()
    assert norm({key: first[key] - second[key] for key in first}) == 0


def test_a_round_says_what_its_epsilon_is_for(tiny, tmp_path):
    folder = RunFolder(tmp_path / "run")
    simulate(scenario(tiny, rounds=1), folder, quiet())
    (record,) = folder.rounds()
    account = record["user-privacy"]
    assert account["accountant"].startswith("PLD") and account["unit"] == "client"
    assert "replaced by none" in account["neighbours"]
    assert "simulation" in account["noise-from"]
    assert strategy().source == "the system's randomness"
