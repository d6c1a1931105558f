"""Ctrl-C in `fedpriv deploy run` ends the command within seconds, not the federation's run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from federations import FILE, small, until

from fedpriv.runfolder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedpriv.simulations.cli import main
main()
"""


@pytest.mark.parametrize(("gate", "code"), [((), 130), (("--fail-if", "psnr>1000"), 4)])
def test_a_signal_ends_the_command_and_the_run_goes_on(federation, tmp_path, gate, code):
    attack = {"name": "linear", "rounds": "first"}
    scenario = small(federation={"clients": 3, "rounds": 10**6}, attacks=[attack])
    path, place = tmp_path / "long.toml", tmp_path / "run"
    path.write_text(scenario.toml())
    given = ("--file", FILE, "--folder", federation.folder, "--engine", "local", "--out", place)
    before = {run.run for run in federation.control().runs()}
    process = subprocess.Popen(
        [sys.executable, "-c", START, "deploy", "run", path, *given, *gate],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: RunFolder(place).rounds() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=180)
        assert process.returncode == code, said
        assert "goes on without this command" in said and "--resume" in said
        (going,) = [run for run in federation.control().runs() if run.run not in before]
        assert not going.finished
    finally:
        process.kill()
        for run in federation.control().runs():
            if not run.finished:
                federation.control().stop(run.run)
