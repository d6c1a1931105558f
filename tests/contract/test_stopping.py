"""A real signal ends every long command within seconds, and what was found is kept."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worlds import UPDATES

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import merged
from fedpriv.sweepfolder import SweepFolder

ROOT = Path(__file__).resolve().parents[2]
FOREVER = 10**9
PATIENCE = 180  # seconds, for a busy machine: work that is not told to stop would take hours
pytestmark = pytest.mark.timeout(600)

# A shell that starts jobs in the background makes them ignore SIGINT, and children inherit that.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedpriv.simulations.cli import program
program()
"""


@pytest.fixture
def stopped(tmp_path):
    """Start a command, send it a signal once `begun` is true; its exit code and what it said."""

    def call(*arguments, begun, number=signal.SIGINT):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", START, *map(str, arguments)],
                cwd=tmp_path,
                env=environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        text = (tmp_path / "said").read_text
        try:
            until = time.monotonic() + 240
            while not begun():
                assert process.poll() is None, text()
                assert time.monotonic() < until, text()
                time.sleep(0.1)
            os.killpg(process.pid, number)  # as a terminal does: everybody in front hears of it
            return process.wait(PATIENCE), text()
        finally:
            process.kill()

    return call


def rounds_in(place):
    return lambda: len(RunFolder(place).rounds()) >= 1


def long(**sections):
    return merged(UPDATES, {"federation": {"rounds": 10**6}, **sections})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_in_training_ends_with_130_and_a_page(file, stopped, tmp_path, number):
    place = tmp_path / "R"
    code, said = stopped("run", file(long()), "--out", place, begun=rounds_in(place), number=number)
    assert code == 130 and f"fedpriv run --resume --out {place}" in said, said
    assert "Undecided" in RunFolder(place).report_file.read_text()


def test_a_run_in_training_with_a_gate_ends_with_4(file, stopped, tmp_path):
    place, attack = tmp_path / "R", {"name": "linear", "rounds": "first"}
    path = file(long(), attacks=[attack], gate={"psnr": 20.0})
    code, said = stopped("run", path, "--out", place, begun=rounds_in(place))
    assert code == 4 and "--resume" in said, said


SEEN = """
from dataclasses import dataclass
from pathlib import Path
from fedpriv import PrivacyPlugin

@dataclass(frozen=True)
class Seen(PrivacyPlugin):
    def on_batch(self, x, y, job):
        Path("trained").touch()
        return x, y
"""


@pytest.mark.parametrize("plugins", [(), ({"name": "dp", "noise-multiplier": 1.0},)])
def test_a_client_in_the_middle_of_its_training_stops_too(file, stopped, tmp_path, plugins):
    (tmp_path / "seen.py").write_text(SEEN)
    place, trained = tmp_path / "R", tmp_path / "trained"
    chosen = {"plugins": [{"name": "seen:Seen"}, *plugins], "keep-truth": True}
    path = file(UPDATES, training={"local-steps": 10**6}, **chosen)
    code, said = stopped("run", path, "--out", place, begun=trained.exists)
    folder = RunFolder(place)
    assert code == 130 and "--resume" in said, said
    assert not folder.rounds() and not list(folder.truth.glob("*"))
    assert not list(folder.observations.glob("*"))


def test_an_attack_in_the_background_is_told_to_stop_too(file, stopped, tmp_path):
    place = tmp_path / "R"
    row = {"name": "quick", "steps": FOREVER, "rounds": "first", "during": True}

    def attacking():
        return rounds_in(place)() and RunFolder(place).attacks_log.exists()

    code, said = stopped("run", file(long(), attacks=[row]), "--out", place, begun=attacking)
    assert code == 130, said


def test_an_audit_is_undecided_and_has_its_page(file, stopped, tmp_path):
    place = tmp_path / "A"
    loud = [{"name": "noise", "scale": 10.0}]
    path = file(UPDATES, gate={"psnr": 99.0}, plugins=loud)  # which nothing crosses
    code, said = stopped(
        "audit", path, "--minutes", 600, "--out", place,
        begun=lambda: "units of work" in (tmp_path / "said").read_text(),  # attacks begin
    )  # fmt: skip
    assert code == 4, said
    folder = RunFolder(place)
    assert folder.verdict()["interrupted"] and folder.verdict()["missing"]
    page = folder.report_file.read_text()
    assert "Undecided" in page and "the audit was interrupted" in page


def test_an_audit_in_training_has_a_page_too(file, stopped, tmp_path):
    place = tmp_path / "A"
    code, said = stopped(
        "audit", file(long()), "--minutes", 600, "--out", place, begun=rounds_in(place)
    )
    assert code == 4, said
    assert "Undecided" in RunFolder(place).report_file.read_text()


def test_a_search_keeps_its_scores(stopped, tmp_path):
    out = tmp_path / "policies.json"
    journal = out.with_suffix(".scores.jsonl")
    given = ("--data", "mnist-5k", "--model", "lenet", "--epochs", 0, "--rounds", 2)
    code, said = stopped(
        "search", *given, "--out", out,
        begun=lambda: journal.exists() and len(journal.read_text().splitlines()) > 3,
    )  # fmt: skip
    assert code == 130 and "the same command goes on" in said, said
    lines = journal.read_text().splitlines(True)
    assert len(lines) > 3 and all(line.endswith("\n") for line in lines) and not out.exists()


def test_a_search_does_not_take_half_a_model_for_a_whole_one(stopped, tmp_path):
    out = tmp_path / "policies.json"
    given = ("--data", "mnist-5k", "--model", "lenet", "--epochs", 10**6)
    said = tmp_path / "said"
    code, words = stopped(
        "search", *given, "--out", out, begun=lambda: "semi-trained model:" in said.read_text()
    )
    assert code == 130, words
    assert not out.with_suffix(".model.safetensors").exists()


SWEEP = {
    "sweep": {"attacks": ["linear", "quick"], "victims": 2, "at": 0.0},
    "defences": [{"name": "noise", "plugins": [{"name": "noise", "scale": 1.0}], "informed": []}],
}


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "code"), [((), 130), (("--fail-if", "psnr>1000"), 4)])
def test_a_sweep_on_ray_keeps_its_cells_and_marks_the_one_under_way(
    file, stopped, tmp_path, gate, code
):
    place = tmp_path / "S"
    options = {"quick": {"steps": FOREVER}}
    path = file(merged(UPDATES, SWEEP), sweep={**SWEEP["sweep"], "options": options})

    def attacking():
        return any((place / "victims").glob("*/attacks/linear/*.npz"))

    found, said = stopped("sweep", path, "--workers", 2, "--out", place, *gate, begun=attacking)
    assert found == code and "--resume" in said, said
    folder = SweepFolder(place)
    results = folder.results()
    assert list(results["attack"]) == ["linear", "quick"] and len(results["error"].dropna())
    scores = folder.scores()
    assert scores[scores["attack"] == "quick"]["partial"].all()
    assert not scores[scores["attack"] == "linear"]["partial"].any()
    assert "Undecided" in folder.report_file.read_text() and not folder.stop_file.exists()
