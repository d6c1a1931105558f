"""A Ray that we start answers nobody without its token, and its end is said in one message."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedpriv.errors import BadOption
from fedpriv.simulations.federation.cluster import cluster, private_folder
from fedpriv.simulations.federation.ray_token import MODE, TOKEN, fresh_token, token_of

STRANGER = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print(ray.get(ray.remote(lambda: "code of a stranger").remote()))
"""
# It starts our Ray, lets somebody try, and says what that one saw and where Ray's files are.
OWNER = """
import os, subprocess, sys
from fedpriv.simulations.federation.cluster import cluster
with cluster(cpus=1):
    import ray
    from ray._private.worker import _global_node
    address = ray.get_runtime_context().gcs_address
    assert ray.get(ray.remote(lambda: 5).remote()) == 5  # the owner's own work goes on
    print("folder", _global_node.get_temp_dir_path())
    print("token", os.environ["RAY_AUTH_TOKEN"])
    told = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    others = [{}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}]
    tries = [
        subprocess.Popen([sys.executable, "-c", sys.argv[1], address], env=told | other,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for other in others
    ]
    for one in tries:
        said, _ = one.communicate(timeout=120)
        print("stranger", one.returncode, said.strip().splitlines()[-1])
    sys.stdout.flush()
    input()
"""


@pytest.mark.slow
def test_a_stranger_on_this_machine_is_not_answered():
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, STRANGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    lines = [owner.stdout.readline().split(maxsplit=2) for _ in range(4)]
    folder, token = Path(lines[0][1]), lines[1][1]
    try:
        for _, code, last in lines[2:]:
            assert code == "1"
            assert "ConnectionError" in last
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700  # nobody else enters
        assert folder.parent.stat().st_uid == os.getuid()
        for path in Path("/proc").glob("[0-9]*/cmdline"):  # which everybody may read
            try:
                assert token.encode() not in path.read_bytes()
            except OSError:
                continue
        for path in folder.rglob("*"):
            if path.is_file():
                assert token.encode() not in path.read_bytes(), f"the token is in {path}"
    finally:
        owner.communicate("\n", timeout=120)
    assert not folder.parent.exists()


def test_tokens_are_random_and_leave_with_the_block(monkeypatch):
    monkeypatch.setenv(TOKEN, "the user's own")
    monkeypatch.delenv(MODE, raising=False)
    seen = []
    for _ in range(2):
        with fresh_token():
            seen.append(os.environ[TOKEN])
            assert os.environ[MODE] == "token"
    assert seen[0] != seen[1]
    assert all(len(token) == 64 for token in seen)
    assert os.environ[TOKEN] == "the user's own"
    assert MODE not in os.environ


def test_a_cluster_that_is_joined_needs_its_token(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (TOKEN, "RAY_AUTH_TOKEN_PATH", MODE):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadOption, match="--insecure-ray"), cluster("127.0.0.1:6379"):
        pass
    with token_of("127.0.0.1:6379", insecure=True):
        assert os.environ[MODE] == "disabled"
    monkeypatch.setenv(TOKEN, "1" * 64)
    with token_of("127.0.0.1:6379", insecure=False):
        assert os.environ[MODE] == "token"


OPEN = """
import os
os.environ.update(RAY_AUTH_MODE="disabled", RAY_ENABLE_AUTO_CONNECT="0")
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
print(ray.get_runtime_context().gcs_address, flush=True)
input()
"""
JOIN = """
import sys
from fedpriv.errors import BadOption
from fedpriv.simulations.federation.cluster import cluster
for insecure in (False, True):
    try:
        with cluster(sys.argv[1], insecure=insecure):
            print("joined")
    except BadOption as error:
        print("refused", error)
"""


@pytest.mark.slow
def test_a_cluster_that_answers_anybody_is_joined_only_when_told_so():
    """A token in hand does not help when the cluster never asks for one."""
    there = subprocess.Popen(
        [sys.executable, "-c", OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = there.stdout.readline().strip()
        done = subprocess.run(
            [sys.executable, "-c", JOIN, address], capture_output=True, text=True, timeout=200,
            env={**os.environ, TOKEN: "2" * 64, "PYTHONPATH": ""},
        )  # fmt: skip
    finally:
        there.communicate("\n", timeout=120)
    first, second = done.stdout.strip().splitlines()
    assert first.startswith("refused")
    assert "does not ask for a token" in first
    assert second == "joined"


def test_the_names_of_sockets_fit_wherever_temporary_files_go(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 20)))
    with private_folder() as folder:
        session = "session_2026-11-18_03-35-18_256682_4194304/sockets/plasma_store"
        assert len(str(folder / session)) <= 107
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert not folder.parent.exists()


LARGE = "[4000]"  # messages of 12 MB, which go through the raylet's store


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("daemon", "hidden"), [("gcs_server", "[8]"), ("raylet", "[8]"), ("raylet", LARGE)]
)
def test_a_killed_ray_is_one_message_and_the_run_goes_on_later(tiny, tmp_path, daemon, hidden):
    """With large messages Ray itself ends the process that works, with code 1 and no word."""
    from fedpriv.runfolder import RunFolder

    file, out = tmp_path / "long.toml", tmp_path / "R"
    file.write_text(tiny.toml())
    command = [sys.executable, "-m", "fedpriv", "run", str(file), "--out", str(out)]
    for one in ("federation.rounds=12", "federation.backend='ray'", f"model.hidden={hidden}"):
        command += ["--set", one]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rounds, ends = RunFolder(out).rounds_file, time.monotonic() + 400
    while not (rounds.exists() and rounds.read_text().count("\n") >= 1):
        assert run.poll() is None, run.stderr.read()
        assert time.monotonic() < ends
        time.sleep(0.02)
    os.kill(descendant(run.pid, daemon), signal.SIGKILL)
    _, said = run.communicate(timeout=120)
    if run.returncode == 0:
        pytest.fail("the run ended before Ray was killed; give it more rounds")
    assert run.returncode == 3, said
    messages = [f"its process {daemon} is gone"] + ["ended from outside fedpriv"] * (
        hidden == LARGE
    )
    assert sum(said.count(one) for one in messages) == 1, said
    assert "Traceback" not in said
    done = RunFolder(out).last_round()["round"]
    assert 1 <= done < 12

    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=200)
    assert again.returncode == 0, again.stderr
    assert [line["round"] for line in RunFolder(out).rounds()] == list(range(1, 13))


def descendant(ancestor: int, name: str) -> int:
    """The process of that name that a process, or one that it started, has started."""
    parents, names = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = path.read_text().rpartition(")")
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number], names[number] = int(tail.split()[1]), head.partition("(")[2]
    for number in (one for one, called in names.items() if called == name):
        above = number
        while above := parents.get(above, 0):
            if above == ancestor:
                return number
    raise AssertionError(f"{name} does not descend from {ancestor}")
