"""Exact bounds: the numbers that tables give, and how often a bound is wrong."""

import numpy as np
import pytest
from scipy.stats import binom

from fedpriv.errors import BadInput
from fedpriv.metrics.rates import (
    at_least,
    at_most,
    exact_interval,
    mean_at_most,
    victims_for,
)


def test_none_of_two_says_almost_nothing():
    low, high = exact_interval(0, 2)
    assert low == 0
    assert high == pytest.approx(0.8419, abs=1e-4)  # 1 - 0.025 ** (1 / 2)


def test_twenty_nine_without_a_hit_are_at_most_ten_percent():
    assert victims_for(0.1) == 29
    assert at_most(0, 29) <= 0.1 < at_most(0, 28)


def test_bounds_solve_the_binomial_equation():
    upper, lower = at_most(3, 40), at_least(3, 40)
    assert binom.cdf(3, 40, upper) == pytest.approx(0.05)
    assert binom.sf(2, 40, lower) == pytest.approx(0.05)


@pytest.mark.parametrize("true", [0.01, 0.1, 0.3])
def test_a_bound_is_wrong_in_at_most_one_audit_in_twenty(true):
    draws = np.random.default_rng(1).binomial(40, true, size=2000)
    wrong = np.mean([at_most(int(hits), 40) < true for hits in draws])
    assert wrong <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_senseless_counts_are_refused():
    for hits, victims in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(BadInput, match="hits"):
            at_most(hits, victims)


def test_a_mean_without_hits_is_the_exact_bound():
    for count in (1, 29, 100):
        assert mean_at_most([0.0] * count) == pytest.approx(at_most(0, count))


def test_a_mean_is_larger_with_every_hit_and_whole_when_all_leaks():
    found = [mean_at_most([1 / 16] * hits + [0.0] * (36 - hits)) for hits in range(37)]
    assert found == sorted(found) and len(set(found)) == 37
    assert sum(value <= 0.1 for value in found) == 13  # none to 12 samples of 576
    assert mean_at_most([1.0, 0.0]) == 1.0
    assert mean_at_most([0.5], 0.9) == pytest.approx(1 - 0.1 * 0.5)
    with pytest.raises(BadInput):
        mean_at_most([])
    with pytest.raises(BadInput):
        mean_at_most([1.5])


@pytest.mark.parametrize("true", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("together", [1.0, 8.0, 1e6])
def test_a_mean_is_bounded_however_samples_of_a_client_go_together(true, together):
    """From all or none of a client's samples to each by itself, the chances differ by client."""
    draw = np.random.default_rng(2)
    rates = draw.beta(true * together, (1 - true) * together, size=(2000, 36))
    seen = draw.binomial(16, rates) / 16
    wrong = sum(mean_at_most(list(one)) < true for one in seen)
    assert wrong <= 0.05 * 2000


def test_a_client_that_leaks_as_a_whole_is_counted_too():
    draw = np.random.default_rng(3)
    seen = (draw.random((2000, 36)) < 0.1).astype(float)
    assert sum(mean_at_most(list(one)) < 0.1 for one in seen) <= 0.05 * 2000
