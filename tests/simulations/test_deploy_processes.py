"""The supervisor: order, health, restarts and a clean end, with real processes that do nothing."""

import os
import signal
import time

import pytest
import yaml

from fedpriv.errors import BadFolder, BadInput, WorkFailed
from fedpriv.simulations.deploy.processes import Processes
from fedpriv.simulations.deploy.state import alive

pytestmark = pytest.mark.slow
LASTING = ["python", "-c", "import time; time.sleep(600)"]


def federation(tmp_path, services):
    (tmp_path / "docker-compose.yml").write_text(yaml.safe_dump({"services": services}))
    return Processes(tmp_path / "docker-compose.yml", tmp_path / "deployment")


def until(condition, seconds=60.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.1)


def test_services_start_in_order_are_restarted_and_leave_nothing(tmp_path):
    first = ["python", "-c", "open('/share/made', 'w').close()"]
    second = ["python", "-c", "import time; open('/share/made'); time.sleep(600)"]
    processes = federation(
        tmp_path,
        {
            "b": {
                "command": second,
                "volumes": ["share:/share"],
                "restart": "always",
                "healthcheck": {"test": ["CMD", "python", "-c", "pass"]},
                "depends_on": {"a": {"condition": "service_completed_successfully"}},
            },
            "a": {"command": first, "volumes": ["share:/share"]},
        },
    )
    processes.up(patience=120)
    try:
        assert processes.statuses() == {"a": "completed", "b": "healthy"}
        with pytest.raises(BadInput, match="running in .* already"):
            processes.up()
        before = processes.running().services["b"].pid
        os.kill(before, signal.SIGKILL)
        until(lambda: processes.running().services["b"].pid not in (None, before))
        assert processes.running().services["b"].restarts == 1
        last = processes.running()
    finally:
        processes.down()
    assert not alive(last.pid, last.started)
    assert not any(service.alive for service in last.services.values())
    with pytest.raises(BadFolder, match="fedpriv deploy up"):
        processes.running()


def test_a_service_that_fails_is_named_with_its_last_words(tmp_path):
    processes = federation(
        tmp_path, {"bad": {"command": ["python", "-c", "raise SystemExit('no such luck')"]}}
    )
    with pytest.raises(WorkFailed, match="'bad' does not start.*(?s:.)*no such luck"):
        processes.up(patience=120)
    assert not processes.deployment().alive


def test_a_killed_supervisor_takes_its_services_along(tmp_path):
    processes = federation(tmp_path, {"a": {"command": LASTING, "restart": "always"}})
    processes.up(patience=120)
    found = processes.running()
    try:
        os.kill(found.pid, signal.SIGKILL)
        until(lambda: not found.services["a"].alive)
    finally:
        processes.down()
