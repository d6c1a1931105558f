"""A bound with 95 % confidence is wrong in at most one audit of twenty."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from scipy.stats import binom

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "audits.py"
AUDITS = 60


@pytest.fixture(scope="module")
def simulated():
    spec = spec_from_file_location("benchmark_of_audits", BENCHMARK)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.simulated


@pytest.mark.parametrize("by_client", [False, True])
def test_at_most_is_seldom_wrong(simulated, by_client):
    found = simulated(AUDITS, seed=5, by_client=by_client)
    assert found.audits == AUDITS and found.above > 20
    assert found.too_low <= binom.ppf(0.999, AUDITS, 0.05)


def test_a_federation_that_leaks_more_than_a_tenth_seldom_holds(simulated):
    found = simulated(AUDITS, seed=5)
    assert found.held <= binom.ppf(0.999, found.above, 0.05)
