"""Shared by all tests: Flower's task identity, a tiny scenario, real processes retried once."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.pop("FEDPRIV_DATA", None)  # no test needs more than the project brings along

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ray and Flower start real processes; on a busy machine one start may fail."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.flaky(reruns=2))


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
