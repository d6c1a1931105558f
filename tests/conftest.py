"""Shared by all tests: fixed seeds, bounds for what no seed reaches, a tiny scenario."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.pop("FEDPRIV_DATA", None)  # no test needs more than the project brings along

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import HealthCheck, settings

from fedpriv.eager import skip_compiler
from fedpriv.scenario import Scenario, from_tables

torch.set_num_threads(1)
skip_compiler()
# The same examples everywhere, and nothing that depends on how busy the machine is.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("repeatable")
TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every test and its fixtures start from the same seeds, whatever ran before."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _chance_bound(n: int, tests: int = 1, failure: float = 1e-9) -> float:
    """What `tests` correlations of `n` random numbers exceed with a chance below `failure`.

    Let u be n independent uniform numbers (or fair coins) scaled to mean 0 and variance 1, and w a
    fixed vector of length 1. Uniform numbers and coins are strictly sub-Gaussian, so Chernoff gives
    P(|w·u| >= t) <= 2 exp(-t² / 2). With t = b √n, the correlation w·u / √n exceeds b with at most
    that chance. Added up over all tests this is `failure` at b = √(2 ln(2 tests / failure) / n).
    A mean is such a correlation with w = (1, …, 1) / √n: it is b standard deviations off.
    """
    return math.sqrt(2 * math.log(2 * tests / failure) / n)


@pytest.fixture
def chance_bound() -> Callable[..., float]:
    """For tests of what comes from the system's randomness, which no seed reaches."""
    return _chance_bound


TINY = {
    "name": "tiny",
    "seed": 3,
    "data": {"name": "synthetic"},
    "model": {"name": "mlp"},
    "training": {"lr": 0.1, "batch-size": 8},
    "federation": {"clients": 4, "rounds": 3, "backend": "inline"},
}


@pytest.fixture
def tiny() -> Scenario:
    """Four clients, three rounds, data made on the spot."""
    return from_tables(TINY)
