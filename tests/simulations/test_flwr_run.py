"""`flwr run .`: the same apps under Flower's own command."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def flower(tmp_path):
    """`flwr` with a home, a port and a local SuperLink of its own, stopped at the end."""
    environment = {
        **os.environ,
        "FLWR_HOME": str(tmp_path / "home"),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(free_port()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    app = tmp_path / "app"
    app.mkdir()
    shutil.copy(ROOT / "pyproject.toml", app / "pyproject.toml")
    shutil.copy(ROOT / "README.md", app / "README.md")

    def call(*arguments):
        return subprocess.run(
            ["flwr", *arguments], cwd=app, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    yield call, app
    mark = f"FLWR_HOME={tmp_path / 'home'}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def finished(call, ends=420.0):
    """The status of the newest run once it has ended."""
    limit = time.monotonic() + ends
    while time.monotonic() < limit:
        done = call("list", "--format", "json")
        found = json.loads(done.stdout)["runs"] if done.returncode == 0 else []
        if found and found[0]["status"].startswith("finished"):
            return found[0]["status"]
        time.sleep(2)
    raise AssertionError(f"no run ended: {done.stdout} {done.stderr}")


def test_flwr_run_trains_and_shows_failure(flower, tiny, tmp_path):
    call, app = flower
    before = (app / "pyproject.toml").read_bytes()
    scenario, out = tmp_path / "tiny.toml", tmp_path / "run"
    scenario.write_text(tiny.toml())
    settings = f'scenario="{scenario}" out="{out}"'
    started = call("run", ".", "--run-config", settings, "--federation-config", "num-supernodes=4")
    assert started.returncode == 0, started.stdout + started.stderr
    assert finished(call) == "finished:completed"
    rounds = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
    assert [r["clients"] for r in rounds] == [4, 4, 4]
    assert (app / "pyproject.toml").read_bytes() == before

    scenario.write_text(tiny.toml().replace('name = "mlp"', 'name = "mpl"'))
    call("run", ".", "--run-config", settings)
    assert finished(call) == "finished:failed"
