"""Every console block of README and the how-tos is run: real commands, in small sizes.

Pages that begin in an empty folder are run by test_blocks.py, `fedpriv deploy` by
tests/deployed/test_documented.py. For the others a row here says what lies in the folder, and what
is added to a command so that it ends in seconds.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pages import HOWTOS, ROOT, WORKED, deployed, typed

ENDS = (0, 1, 4)  # done, a leak or a refuted claim, undecided: what a page may end in
VENV = Path(sys.executable).parent

SMALL = """
name = "federation"
keep-truth = true

[data]
name = "synthetic"
options = { train = 64, test = 32 }

[model]
name = "my_app.task:Net"

[training]
local-steps = 1
batch-size = 1

[federation]
clients = 2
rounds = 1
backend = "inline"

[[attacks]]
name = "linear"
"""
NET = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, channels=1, size=16, classes=4):
        first = nn.Linear(channels * size * size, 16)
        super().__init__(nn.Flatten(), first, nn.ReLU(), nn.Linear(16, classes))
"""
LITTLE = (
    "--set data.limit=200 --set federation.clients=2 --set federation.rounds=1 "
    "--set 'federation.backend=\"inline\"'"
)
ENTER = "\n" * 30  # to every question of `fedpriv new`: its default
INSTALLED = "-o .venv/.installed"  # what the tests run in is installed already
SAME = {"my_app/__init__.py": "", "my_app/task.py": NET}
MADE = "fedpriv run federation.toml --out runs/mine"


@dataclass(frozen=True)
class Page:
    """What lies in the folder of a page's reader, and what makes a command small."""

    files: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()  # commands that come before those of the page
    added: Mapping[str, str] = field(default_factory=dict)  # by how a command begins


PREPARED = {
    "README": Page(
        added={
            "make demo": INSTALLED,
            "make test": f"{INSTALLED} PARALLEL='-n 1 --dist'",
            "fedpriv audit quickstart": "--minutes 0.2 --workers 1 --out A",
        }
    ),
    "ci": Page(
        files={"federation.toml": SMALL, **SAME},
        added={"fedpriv audit federation.toml": "--minutes 0.2 --workers 1 --out A"},
    ),
    "own-app": Page(
        files={"federation.toml": SMALL, **SAME},
        first=(
            f"cp -r {ROOT}/tests/foreign/fedsgd-one my-app",
            MADE,
            "cp -r runs/mine/observations runs/mine/truth .",
        ),
        added={
            "fedpriv audit --app my-app": "--minutes 3 --clients 2 --out A",
            "fedpriv attack observations": "--option steps=20 --set 'std=[0.5]' --set 'mean=[0.5]'",
        },
    ),
    "python": Page(files={"federation.toml": SMALL, **SAME}, first=(MADE,)),
    "terms": Page(),
    "verify-dp": Page(
        added={
            "fedpriv verify-dp run quickstart --set": f"{LITTLE} --canaries 20 --out A "
            "--set training.batch-size=20",
            "fedpriv verify-dp run quickstart --unit client": f"{LITTLE} --canaries 4 --out B",
        }
    ),
    "watch": Page(files={"my.toml": SMALL, **SAME}),
}
# Servers: they are asked for a page and then ended as by Ctrl-C.
SERVERS = {"fedpriv watch runs/mine": 8765, "tensorboard --logdir tb": 6006}
NOT_RUN = {
    "fedpriv --install-completion": "changes the files of the shell that it finds above it",
    "fedpriv audit --app my-app --data uoft-cs/cifar10=cifar10": "needs CIFAR-10",
    "fedpriv run spn-table1-cifar10 --ray-address auto": "needs a Ray cluster and CIFAR-10",
    "fedpriv sweep spn-table1-cifar10 --ray-address ray://head:10001": "the same",
    "fedpriv attack runs/mine --attack dlg --attack quick --ray-address auto": "a Ray cluster",
    "fedpriv run mine.toml --set federation.gpus-per-client=0.25": "needs a GPU",
    "fedpriv attack runs/mine --attack quick --workers 2 --gpus-per-worker 0.5": "needs a GPU",
    "mkdir -p ~/.ray": "makes a token for machines of a cluster",
    "ray up": "starts machines; test_cluster.py checks the file",
    "ray submit": "needs those machines",
}


def not_run(line: str) -> bool:
    return any(line.startswith(beginning) for beginning in NOT_RUN)


@pytest.mark.parametrize("page", [ROOT / "README.md", *HOWTOS], ids=lambda page: page.stem)
def test_every_command_of_a_page_is_run_somewhere(page):
    left = [line for line in typed(page) if not not_run(line) and line not in deployed(page)]
    assert not left or page.stem in WORKED or page.stem in PREPARED


def test_nothing_is_named_that_no_page_has():
    printed = [line for page in (ROOT / "README.md", *HOWTOS) for line in typed(page)]
    added = [beginning for page in PREPARED.values() for beginning in page.added]
    for beginning in (*NOT_RUN, *SERVERS, *added):
        assert any(line.startswith(beginning) for line in printed), beginning


def environment(home: Path) -> dict[str, str]:
    path = f"{VENV}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home), "PYTHONPATH": str(home)}


def ended(line: str, folder: Path) -> None:
    """A line as a shell runs it; a server is asked for its page and ended."""
    if line in SERVERS:
        served(line, SERVERS[line], folder)
        return
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment(folder),
        input=ENTER,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in ENDS, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr, f"{line}\n{done.stderr[-3000:]}"
    if not line.startswith(("fedpriv audit", "fedpriv verify-dp")):
        assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def heard() -> None:
    """Ctrl-C reaches the child also where the tests run in the background of a shell."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def served(line: str, port: int, folder: Path) -> None:
    """A server on a free port that answers, and ends when it is told to."""
    free = port + os.getpid() % 1000
    server = subprocess.Popen(
        [*line.split(), "--port", str(free)],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=heard,
    )
    try:
        for _ in range(600):
            assert server.poll() is None, f"{line} ended by itself"
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{free}/") as answer:
                    assert answer.status == 200
                    break
            except OSError:
                time.sleep(0.2)
        else:
            pytest.fail(f"{line} never answered")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PREPARED)
def test_the_commands_of_a_page_work_as_printed(name, tmp_path):
    page = PREPARED[name]
    place = ROOT / "README.md" if name == "README" else ROOT / "docs" / "howto" / f"{name}.md"
    for file, text in page.files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, "utf-8")
    if name == "README":
        cloned(tmp_path)
    for line in page.first:
        ended(line, tmp_path)
    for line in typed(place):
        if not_run(line) or line in deployed(place):
            continue
        waits = line.endswith(" &")  # in the background of a shell; here one after the other
        line = line.removesuffix(" &")
        more = [added for start, added in page.added.items() if line.startswith(start)]
        ended(" ".join([line, *more]), tmp_path)
        assert not waits or (tmp_path / "runs").exists()


def cloned(folder: Path) -> None:
    """What the README's reader has cloned, with one of the tests in place of all of them."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(VENV.parent)
    for name in ("conftest.py", "helpers", "fedpriv/test_names.py"):
        place = folder / "tests" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / "tests" / name).is_dir() else shutil.copy)(
            ROOT / "tests" / name, place
        )
