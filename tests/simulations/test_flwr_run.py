"""`flwr run .`: the same apps under Flower's own command."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def unused_ports(count):
    """Ports that nobody has, below those which the kernel hands to outgoing connections.

    From above it takes one away between our look and the SuperLink's start.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    first = 10000 + os.getpid() % (lowest - 10000)
    found = []
    for port in (*range(first, lowest), *range(10000, first)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):  # refused: nobody listens
                found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"fewer than {count} ports are free")


@pytest.fixture
def flower(tmp_path):
    """`flwr` and the SuperLink it would start for a simulation, waited for longer than its 15 s."""
    (port, fleet), home = unused_ports(2), tmp_path / "home"
    # Flower joins the Ray that was noted last in this folder, also one of another test. Names of
    # Ray's sockets have at most 107 letters, so that it cannot be in `tmp_path`.
    ray = tempfile.mkdtemp(prefix="ray-")
    home.mkdir()
    (home / "config.toml").write_text(
        '[superlink]\ndefault = "here"\n'
        f'[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    environment = {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",  # as the how-to says: Flower starts this Ray, not fedpriv
        "RAY_AUTH_TOKEN": "4" * 64,
        "RAY_TMPDIR": ray,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    app = tmp_path / "app"
    app.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, app / name)
    said = (tmp_path / "superlink.log").open("w")
    process = subprocess.Popen(
        ["flower-superlink", "--insecure", "--simulation", "--isolation", "subprocess",
         "--host", "127.0.0.1", "--port", str(port), "--fleet-api-address", f"127.0.0.1:{fleet}"],
        cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
    )  # fmt: skip
    ends = time.monotonic() + 240
    while not answers(port):
        assert process.poll() is None, (tmp_path / "superlink.log").read_text()
        assert time.monotonic() < ends
        time.sleep(0.5)

    def call(*arguments):
        return subprocess.run(
            ["flwr", *arguments], cwd=app, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip

    yield call, app
    said.close()
    mark = f"FLWR_HOME={home}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
        except OSError:
            continue
    process.wait()
    shutil.rmtree(ray, ignore_errors=True)


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False


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
    ended = time.monotonic() + 420
    while not (out / "report.html").exists() and time.monotonic() < ended:
        time.sleep(1)  # `flwr list` takes seconds of a core that the run needs
    assert finished(call) == "finished:completed"
    rounds = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
    assert [r["clients"] for r in rounds] == [4, 4, 4]
    assert (app / "pyproject.toml").read_bytes() == before

    scenario.write_text(tiny.toml().replace('name = "mlp"', 'name = "mpl"'))
    started = call("run", ".", "--run-config", settings)
    assert started.returncode == 0, started.stdout + started.stderr
    assert finished(call) == "finished:failed"
