"""A fork of the loaded parent has what its own service has, and nothing of the others."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from fedpriv.simulations.deploy.shared import EXECUTOR, forked, main_of, options_of, paced

CODE = """
import json, os, random, sys
from pathlib import Path
import numpy, torch
from fedpriv.simulations.deploy.shared import forked

secret = open(sys.argv[1])  # a file of another client, open in the parent
os.environ["FEDPRIV_STATE"] = "/state/of/another"
os.environ["ANOTHERS"] = "secret"
numpy.random.seed(1), torch.manual_seed(1), random.seed(1)

def main():
    fds = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            fds[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass  # the listing itself
    facts = dict(fds=fds, environment=dict(os.environ), here=os.getcwd(), argv=sys.argv)
    facts["drawn"] = [random.random(), numpy.random.rand(), torch.rand(1).item()]
    facts["leader"] = os.getsid(0) == os.getpid()
    Path("facts.json").write_text(json.dumps(facts))
    print("said")
    sys.exit(int(sys.argv[1]))

here = Path(sys.argv[2])
children = []
for number in (3, 4):
    folder = here / str(number)
    folder.mkdir()
    children.append(forked(main, ["service", str(number)], name=f"client-{number}",
        environment={"FEDPRIV_STATE": str(folder)}, folder=folder, log=here / f"{number}.log"))
print(json.dumps([child.wait() for child in children]))
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """What two forks found in themselves."""
    import subprocess

    here = tmp_path_factory.mktemp("forks")
    (here / "secret").write_text("of another client")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(here / "secret"), str(here)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [3, 4]  # the exit codes are the services' own
    return here, [json.loads((here / n / "facts.json").read_text()) for n in ("3", "4")]


def test_no_file_of_the_parent_is_open(facts):
    here, found = facts
    for number, one in zip((3, 4), found, strict=True):
        assert set(one["fds"]) <= {"0", "1", "2"}
        assert one["fds"]["0"] == os.devnull
        assert one["fds"]["1"] == one["fds"]["2"] == str(here / f"{number}.log")
        assert (here / f"{number}.log").read_text() == "said\n"


def test_the_environment_is_its_own(facts):
    here, found = facts
    for number, one in zip((3, 4), found, strict=True):
        own = {key: value for key, value in one["environment"].items() if key != "LC_CTYPE"}
        assert own == {"FEDPRIV_STATE": str(here / str(number))}
        assert one["here"] == str(here / str(number)) and one["argv"] == ["service", str(number)]
        assert one["leader"]


def test_what_it_writes_is_for_its_owner_only(facts):
    here, _ = facts
    for path in (here / "3" / "facts.json", here / "4.log"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_two_draw_the_same_numbers(facts):
    import random

    import numpy
    import torch

    state = random.Random(1).random(), numpy.random.RandomState(1).rand()
    drawn = torch.rand(1, generator=torch.Generator().manual_seed(1)).item()
    parents = [*state, drawn]
    _, (one, other) = facts
    for kind in range(3):  # by chance alike: below 2^-24 per pair of numbers, 9 pairs
        assert len({parents[kind], one["drawn"][kind], other["drawn"][kind]}) == 3


def test_only_clients_are_forks():
    assert main_of(["flower-supernode", "--insecure"]) is not None
    assert main_of(["python", "-m", EXECUTOR, "--insecure"]) is not None
    for other in (["flower-superexec"], ["python", "-m", "fedpriv.simulations.deploy.keys"]):
        assert main_of(other) is None
    assert options_of(["python", "-m", EXECUTOR, "--a"]) == [EXECUTOR, "--a"]
    assert options_of(["flower-supernode", "--a"]) == ["flower-supernode", "--a"]


def test_many_executors_ask_less_often():
    name = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL"
    asked = {name: "0.2", "OTHER": "x"}
    assert paced(asked, 3) == {name: "0.20", "OTHER": "x"}
    assert float(paced(asked, 32)[name]) == pytest.approx(0.8)


def test_forked_reports_a_breakdown(tmp_path):
    def broken():
        raise ValueError("no such luck")

    child = forked(
        broken, ["x"], name="x", environment={}, folder=tmp_path, log=Path(tmp_path / "log")
    )
    assert child.wait() == 1
    assert "no such luck" in (tmp_path / "log").read_text()
