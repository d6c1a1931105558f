"""Exact bounds: the numbers that tables give, and how often a bound is wrong."""

import numpy as np
import pytest
from scipy.stats import binom

from fedpriv.errors import BadInput
from fedpriv.metrics.rates import at_least, at_most, exact_interval, victims_for


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
