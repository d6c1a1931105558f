"""Canaries in one run: scores that tell them apart give a bound, and equal scores give none."""

import numpy as np
import pytest
import torch

from fedpriv.errors import BadInput
from fedpriv.scenario import read
from fedpriv.simulations.dp.accounting import Account, exact
from fedpriv.simulations.dp.audits import audit_of
from fedpriv.simulations.dp.by_step import Rounds, most_noise, sampled_epsilon
from fedpriv.simulations.dp.client_canaries import direction, scored, sign
from fedpriv.simulations.dp.findings import Claim, Examination
from fedpriv.simulations.dp.run import compared, judge
from fedpriv.simulations.dp.watching import parts_of
from fedpriv.simulations.dp.worst_case import drawn_entries


def judged(shift: float) -> Examination:
    draw = np.random.default_rng(9)
    inside = draw.random(2000) < 0.5
    result = Examination("toy", Claim(1.0, 1e-5, "sample"))
    scores = draw.standard_normal(2000) + shift * inside
    judge({"toy": (scores[inside], scores[~inside])}, result)
    return result


def test_scores_that_tell_canaries_apart_refute_a_small_epsilon():
    assert judged(4.0).answer == "refuted"
    assert judged(0.0).at_least == 0.0


def test_a_canary_is_one_entry_of_one_client_and_the_draw_can_be_repeated():
    order = torch.arange(5000).flip(0)
    found, again = drawn_entries(order, 200, 4, 7), drawn_entries(order, 200, 4, 7)
    assert found.entry.min() == 4800
    assert found.entry.equal(again.entry) and found.inside.equal(again.inside)
    assert len(found.entry.unique()) == 200 and 60 < int(found.inside.sum()) < 140


def test_a_scenario_without_dp_claims_nothing():
    with pytest.raises(BadInput, match="no plugin 'dp'"):
        audit_of(read("quickstart"), 100, "gradient", "sample")


def test_a_place_that_sees_nothing_without_noise_decides_nothing():
    blind, seeing = judged(0.0), judged(0.0)
    assert not compared(blind, judged(0.0))["toy"]["sees"]
    assert blind.answer == "undecided" and blind.exit_code == 4
    assert compared(seeing, judged(4.0))["toy"]["sees"]
    assert seeing.answer == "not refuted" and seeing.exit_code == 0


def test_gradients_that_resemble_each_other_are_told_apart():
    draw = torch.Generator().manual_seed(3)
    rows = torch.randn(20, 300, generator=draw) + 5 * torch.randn(300, generator=draw)
    taken = torch.arange(20).float() % 2
    assert parts_of(taken @ rows, rows, 1e-6).round().equal(taken)


def published(noise: torch.Tensor, canaries: int, size: int) -> list[torch.Tensor]:
    """Models after each round of a sum of canary clients of norm 1, with the noise given."""
    models = [torch.zeros(size)]
    for number, more in enumerate(noise, 1):
        moved = sum(sign(n, number) * direction(size, n, 7) for n in range(canaries))
        models.append(models[-1] + moved + more)
    return models


@pytest.mark.parametrize("same", [False, True])
def test_canary_clients_see_how_much_noise_there_is_and_whether_it_is_fresh(same):
    noise = 2.0 * torch.randn(4, 5000, generator=torch.Generator().manual_seed(5))
    if same:
        noise = noise[:1].expand(4, -1)
    inside, outside = scored(published(noise, 120, 5000), 120, 7)
    result = Examination("toy", Claim(1000.0, 1e-5, "client"))
    judge({k: (inside[k], outside[k]) for k in ("every", "last")}, result)
    found = {score: max(b.epsilon for b in result.bounds if b.score == score) for score in inside}
    # Four rounds with σ = 2 are a shift of 1: ε = 4.38. Reused, noise is gone or twice as large.
    assert (found["every"] > 10) if same else (1.0 < found["every"] < 4.38)
    assert found["last"] < 4.38


def rounds(noise, seed, canaries=2000, rate=0.2, turns=10):
    draw = np.random.default_rng(seed)
    inside = draw.random(canaries) < 0.5
    taken = (draw.random((turns, canaries)) < rate) & inside
    values = taken + noise * draw.standard_normal((turns, canaries))
    return Rounds(values, inside, rate, 1)


def test_the_noise_of_single_rounds_is_bounded_from_above():
    """Of 300 measurements at 1 %, binomial(300, 0.01) has more than 12 below with 2e-5."""
    found = [most_noise(rounds(0.9, seed), 0.01) for seed in range(300)]
    assert sum(one < 0.9 for one in found) <= 12
    # The canary adds 2 in all, and two means of 1,000 sums differ by 0.13 by chance.
    assert np.median(found) < 0.9 * 2 / (2 - 3 * 0.13)
    assert rounds(0.9, 1).why_not is None


def test_drawn_batches_have_the_epsilon_of_what_was_measured():
    _, high = exact(Account(noise=0.9, rate=0.2, rounds=10, sampling="poisson"))
    assert 0.7 * high < sampled_epsilon(rounds(0.9, 2, canaries=20_000), 1e-3, 1e-5) < high
    assert sampled_epsilon(rounds(0.9, 2, rate=1e-6), 1e-3, 1e-5) == 0.0
