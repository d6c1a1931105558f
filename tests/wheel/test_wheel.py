"""The wheel installs one package, `fedpriv`, and runs wherever its user stands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("fedpriv", "clients", "strategies", "attacks", "simulations")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def python(*arguments, cwd, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*arguments, cwd):
    """pip without the network: all that is needed to build lies here."""
    return python("-m", "pip", "--disable-pip-version-check", *arguments, cwd=cwd, PIP_NO_INDEX="1")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where a wheel was installed; it is built from a copy, so that the checkout stays clean."""
    place = tmp_path_factory.mktemp("wheel")
    source, target = place / "source", place / "target"
    source.mkdir()
    for name in PARTS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in filter(Path.is_file, ROOT.iterdir()):
        shutil.copy(path, source)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, source, cwd=place)
    (wheel,) = place.glob("*.whl")
    pip("install", "--no-deps", "--no-compile", "--target", target, wheel, cwd=place)
    return target


@pytest.fixture(params=["an empty folder", "a folder with clients and strategies of its own"])
def folder(request, tmp_path):
    place = tmp_path / "here"
    place.mkdir()
    if "own" in request.param:
        for name in ("clients", "strategies"):
            (place / name).mkdir()
            (place / name / "__init__.py").write_text(f"raise ImportError('the user\\'s {name}')\n")
    return place


def test_it_installs_nothing_but_fedpriv(installed):
    found = {path.name for path in installed.iterdir() if path.suffix != ".dist-info"}
    assert found - {"bin"} == {"fedpriv"}


def test_it_runs_a_scenario(installed, folder, tiny, tmp_path):
    (tmp_path / "tiny.toml").write_text(tiny.toml())
    ours = {"PYTHONPATH": str(installed)}
    python("-m", "fedpriv", "run", "../tiny.toml", "--out", "run", cwd=folder, **ours)
    rounds = [json.loads(line) for line in (folder / "run" / "rounds.jsonl").open()]
    assert [one["clients"] for one in rounds] == [4, 4, 4]
    names = "fedpriv.clients.app, fedpriv.strategies.app"
    where = f"import {names}; print(*(one.__file__ for one in ({names})), sep='\\n')"
    for path in python("-c", where, cwd=folder, **ours).split():
        assert Path(path).is_relative_to(installed), path
