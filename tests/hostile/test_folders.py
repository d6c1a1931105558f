"""Folders under attack: two processes, names that lead out, a full disk, one that is read-only."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from fedpriv.errors import BadFolder, BadInput
from fedpriv.lock import LOCK, held
from fedpriv.runfolder import RunFolder, inside, new_folder
from fedpriv.scenario import from_tables
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate

HOLDER = """
import sys, time
from pathlib import Path
from fedpriv.lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that works in the folder R."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "R")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def fedpriv(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "fedpriv", *map(str, arguments)],
        capture_output=True, text=True, timeout=200, **options,
    )  # fmt: skip


@pytest.fixture
def file(tiny, tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(tiny.toml())
    return path


def test_a_second_process_is_told_who_has_the_folder(holder, tiny, tmp_path):
    said = f"process {holder.pid} on .* since .*another --out"
    with pytest.raises(BadFolder, match=said), held(tmp_path / "R"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "audit", "attack"])
def test_commands_refuse_a_folder_in_use(holder, file, tmp_path, command):
    before = sorted((tmp_path / "R").iterdir())
    named = file
    if command == "attack":  # claims of a good recording, into a folder that is in use
        good = file.read_text() + '\n[[attacks]]\nname = "linear"\nvictims = 1\n'
        file.write_text(good)
        assert fedpriv("run", file, "--out", tmp_path / "seen").returncode == 0
        named = tmp_path / "seen"
    done = fedpriv(command, named, "--out", tmp_path / "R")
    assert done.returncode == 2
    assert f"is in use by process {holder.pid}" in done.stderr
    assert sorted((tmp_path / "R").iterdir()) == before


def test_a_crash_releases_the_folder(holder, tmp_path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with held(tmp_path / "R"):
        who = json.loads((tmp_path / "R" / LOCK).read_text())
        assert who["pid"] == os.getpid()
    assert not (tmp_path / "R" / LOCK).exists()


def test_another_thread_is_another_holder(tmp_path):
    refused = []

    def other():
        try:
            with held(tmp_path / "R"):
                pass
        except BadFolder:
            refused.append(True)

    with held(tmp_path / "R"), held(tmp_path / "R"):  # its own thread may take it again
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert refused


def test_many_processes_take_turns(tmp_path):
    """No two of them ever hold the lock at once, also while its file comes and goes."""
    count = """
import sys, time
from pathlib import Path
from fedpriv.lock import held
place = Path(sys.argv[1])
for _ in range(20):
    with held(place / "R", patience=60):
        n = int((place / "n").read_text())
        time.sleep(0.002)
        (place / "n").write_text(str(n + 1))
"""
    (tmp_path / "n").write_text("0")
    (tmp_path / "R").mkdir()
    crowd = [subprocess.Popen([sys.executable, "-c", count, str(tmp_path)]) for _ in range(3)]
    assert [one.wait(timeout=120) for one in crowd] == [0, 0, 0]
    assert (tmp_path / "n").read_text() == "60"


NAMES = ["../../../x", "/etc/x", "..", ".", "", "a/b", "a\\b", "a\x00b", "n" * 300, ".hidden",
         "a\nb", " a"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_its_folder(name, tmp_path):
    with pytest.raises(BadInput, match="name"):
        from_tables({"name": name})
    with pytest.raises(BadInput, match="name"):
        from_tables({"variants": [{"name": name}]})
    with pytest.raises(BadFolder, match="cannot name"):
        inside(name)
    with pytest.raises(BadFolder, match="cannot name"):
        new_folder(name, tmp_path)
    with pytest.raises(BadFolder, match="cannot name"):
        RunFolder(tmp_path).claim_file("dlg", name)


def test_a_label_with_a_path_in_its_options_stays_in_the_folder(tmp_path):
    from fedpriv.scenario.sections import Attack
    from fedpriv.simulations.judging.attacking import labels_of

    attacks = [Attack(name="dlg", options={"x": "../../../x"}), Attack(name="dlg")]
    for label in labels_of(attacks):
        found = RunFolder(tmp_path).claim_file(label, "1-0").resolve()
        assert found.is_relative_to(tmp_path / "attacks")


def test_a_score_that_points_elsewhere_is_not_followed(tmp_path):
    with pytest.raises(BadFolder, match="cannot name"):
        RunFolder(tmp_path).below("../../etc")


def limited():
    """Files of at most 30,000 bytes: what comes after fails as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


@pytest.mark.slow
def test_a_full_disk_is_one_message_and_the_run_goes_on_later(file, tmp_path):
    """The model of 8,234 numbers does not fit; with room again the same bytes come out."""
    file.write_text(file.read_text().replace('name = "mlp"', 'name = "mlp"\nhidden = [128]'))
    full = fedpriv("run", file, "--out", tmp_path / "R", preexec_fn=limited)
    assert full.returncode == 3, full.stderr
    assert "Traceback" not in full.stderr
    assert "--resume" in full.stderr.splitlines()[-1]
    again = fedpriv("run", file, "--resume", "--out", tmp_path / "R")
    assert again.returncode == 0, again.stderr
    whole = fedpriv("run", file, "--out", tmp_path / "W")
    assert whole.returncode == 0
    models = [RunFolder(tmp_path / name).model_file.read_bytes() for name in "RW"]
    assert models[0] == models[1]
    assert not list((tmp_path / "R").rglob(".*.safetensors.*"))  # no half of a file stays


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 32 MiB, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.slow
def test_a_disk_that_is_full_or_read_only(small_disk, file):
    filler = small_disk / "filler"
    about = os.statvfs(small_disk)
    filler.write_bytes(b"0" * (about.f_bavail * about.f_frsize - 40_960))
    full = fedpriv("run", file, "--out", small_disk / "R", "--set", "federation.rounds=40")
    assert full.returncode == 3, full.stderr
    assert "No space left on device" in full.stderr
    assert "Traceback" not in full.stderr
    filler.unlink()
    again = fedpriv("run", "--resume", "--out", small_disk / "R")
    assert again.returncode == 0, again.stderr
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for arguments in (
        ["run", file, "--out", small_disk / "N"],
        ["run", "--resume", "--out", small_disk / "R"],
        ["search", "--data", "synthetic", "--out", small_disk / "p.json"],
        ["audit", file, "--out", small_disk / "A"],
    ):
        done = fedpriv(*arguments)
        assert done.returncode == 2, done.stderr
        assert "Read-only file system" in done.stderr
        assert "Traceback" not in done.stderr


def test_foreign_code_cannot_end_a_run_with_its_own_code(tiny, tmp_path, monkeypatch):
    """A model that calls sys.exit while a client trains is a client that failed, no more."""
    from fedpriv.models import mlp as module

    real, calls = module.nn.Sequential.forward, []

    def forward(self, x):
        calls.append(x.requires_grad)
        if self.training and len(calls) < 3:
            sys.exit(0)
        return real(self, x)

    monkeypatch.setattr(module.nn.Sequential, "forward", forward)
    show = PlainLines(Console(quiet=True))
    rounds = simulate(tiny, RunFolder(tmp_path / "R"), show).rounds()
    assert "SystemExit" in rounds[0]["failed"][0]["why"]
    assert len(rounds) == 3


def test_a_folder_waited_for_is_taken_when_it_is_free(holder, tmp_path):
    started = time.monotonic()
    threading.Timer(0.5, holder.kill).start()
    with held(tmp_path / "R", patience=60):
        assert time.monotonic() - started >= 0.4


def test_relative_and_absolute_paths_are_one_folder(holder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFolder, match="in use"), held(Path("R")):
        pass
