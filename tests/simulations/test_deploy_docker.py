"""With a Docker engine every step is a `docker compose` command on the same file."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from fedpriv.errors import BadOption, WorkFailed
from fedpriv.simulations.deploy.docker import Containers, engine_answers
from fedpriv.simulations.deploy.rotation import rotated

FILE = Path(__file__).parents[2] / "docker-compose.yml"
FAKE = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["DOCKER_SAID"], "a") as said:
    said.write(json.dumps(sys.argv[1:]) + "\\n")
if "ps" in sys.argv:
    if "--quiet" in sys.argv:
        sys.exit(print("0123456789ab"))
    print(json.dumps({{"Service": "superlink", "State": "running", "Health": "healthy"}}))
    print(json.dumps({{"Service": "keys", "State": "exited", "Health": ""}}))
if os.environ.get("DOCKER_FAILS"):
    sys.exit("no space left on device")
"""


@pytest.fixture
def said(tmp_path, monkeypatch):
    """The commands a stand-in for `docker` was called with."""
    program = tmp_path / "docker"
    program.write_text(FAKE)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_SAID", str(tmp_path / "said"))
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    return lambda: [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]


def containers(tmp_path):
    return Containers(FILE, tmp_path / "folder")


def test_up_waits_until_all_is_healthy(said, tmp_path):
    assert engine_answers()
    containers(tmp_path).up(patience=30)
    last = said()[-1]
    assert last[:4] == ["compose", "--file", str(FILE), "up"]
    assert {"--build", "--detach", "--wait"} <= set(last)
    assert stat.S_IMODE((tmp_path / "runs").stat().st_mode) == 0o1777


def test_down_keeps_volumes_unless_told(said, tmp_path):
    containers(tmp_path).down()
    containers(tmp_path).down(volumes=True)
    assert [("--volumes" in call) for call in said()] == [False, True]


def test_statuses_are_by_service(said, tmp_path):
    assert containers(tmp_path).statuses() == {"superlink": "healthy", "keys": "exited"}


def test_a_failure_is_one_message(said, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_FAILS", "1")
    with pytest.raises(WorkFailed, match="ps --all.*no space left on device"):
        containers(tmp_path).statuses()


def test_a_run_folder_must_be_one_that_containers_see(said, tmp_path):
    inside = tmp_path / "runs" / "one"
    assert containers(tmp_path).seen_by_server(inside) == "/runs/one"
    with pytest.raises(WorkFailed, match="--out must be below"):
        containers(tmp_path).seen_by_server(tmp_path / "elsewhere")


@pytest.mark.parametrize("options", [{"shared": True}, {"clients": 4}])
def test_owners_in_containers_share_nothing(said, tmp_path, options):
    with pytest.raises(BadOption, match="--shared and --clients are for local processes"):
        containers(tmp_path).up(**options)


def test_rotation_makes_keys_first_and_restarts_the_superlink_before_its_clients(said, tmp_path):
    rotated(containers(tmp_path), "leaves", lambda line: None)
    calls = [call[3:] for call in said() if call[3] in ("run", "restart")]
    assert calls[0][:3] == ["run", "--rm", "keys"] and calls[0][-1] == "--rotate=leaves"
    assert "--client=/client-2" in calls[0]
    assert calls[1] == ["restart", "superlink"]
    assert {"serverapp", "supernode-0", "client-2"} <= set(calls[2])
    assert not {"keys", "enrol", "client-0-terms"} & set(calls[2])


def test_the_certificates_come_out_of_the_containers_that_use_them(said, tmp_path):
    found = containers(tmp_path).certificates()
    assert list(found)[:2] == ["authority", "superlink"] and "client-2's own" in found
    copied = [call[-2] for call in said() if "cp" in call]
    assert copied[0] == "superlink:/trust/ca.crt"
    assert copied[-1] == "supernode-2:/hop/supernode.crt"


def test_no_engine_no_docker(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not engine_answers()
