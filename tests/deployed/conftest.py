"""Real processes: one federation for all tests that only look, one for each test that breaks it."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HELPERS = HERE.parent / "helpers"
sys.path.insert(0, str(HERE))


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(item.fspath).parent == HERE:
            item.add_marker(pytest.mark.deployed)
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session", autouse=True)
def quiet_environment():
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = f"{HERE}{os.pathsep}{HELPERS}"  # clients that misbehave live here


@pytest.fixture(scope="session")
def federation(tmp_path_factory, quiet_environment):
    """Up once, its clients in one memory, for tests that leave it as it is."""
    from federations import up

    processes = up(tmp_path_factory.mktemp("federation") / "deployment", shared=True)
    yield processes
    processes.down()


@pytest.fixture(scope="session")
def besieged(tmp_path_factory, quiet_environment):
    """Up once, with an enemy as client 1, who sends a dozen odd replies, and one as the server."""
    from federations import TERMS, besieged_file, up

    folder = tmp_path_factory.mktemp("besieged")
    file, terms = besieged_file(folder, server=True), f"{TERMS}splits = 2\n"  # dp has its own split
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTILE_EVERY", "6")
        processes = up(folder / "deployment", file, terms, shared=True)
    yield processes
    processes.down()


@pytest.fixture
def breakable(tmp_path, quiet_environment):
    """A federation that a test may break; nothing of it is left afterwards."""
    from federations import up

    started = []

    def start(**options):
        started.append(up(tmp_path / "deployment", **options))
        return started[-1]

    yield start
    for processes in started:
        found = processes.running()
        assert processes.down() == []
        assert not found.alive and not any(one.alive for one in found.services.values())
