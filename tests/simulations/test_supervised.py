"""The exit code of a long command is its own, however its process was ended."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedpriv.simulations import cli

# A shell that starts jobs in the background makes them ignore SIGINT, and children inherit that.
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedpriv.simulations.cli.supervised import supervised
def work():
    {body}
supervised(work)
"""
ENDED = "ended from outside fedpriv"


def begun(body, **options):
    program = PROGRAM.format(body=body)
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("os._exit(1)", 3, ENDED),  # what Ray calls
        ("os._exit(0)", 3, ENDED),  # what would be green
        ("os.kill(os.getpid(), signal.SIGKILL)", 3, ENDED),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 3, ENDED),
        ("os.fork() or time.sleep(3); os._exit(0)", 3, ENDED),  # somebody is left behind
        ("pass", 0, ""),
        ("raise SystemExit(4)", 4, ""),
        ("raise RuntimeError('a bug')", 3, "a bug"),  # Python would end with 1, which is a leak
        ("import atexit; atexit.register(os._exit, 1)", 0, ""),  # too late to change anything
    ],
)
def test_only_a_code_that_was_decided_on_counts(body, code, said):
    process = begun(body)
    _, error = process.communicate(timeout=120)
    assert process.returncode == code, error
    assert said in error and (said or not error)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("everybody", [True, False])  # a terminal tells all, `kill` one
def test_a_signal_reaches_the_work_once(number, everybody):
    body = f"""
    count = []
    signal.signal({int(number)}, lambda *_: count.append(1))
    print("ready", flush=True)
    while not count: time.sleep(0.01)
    time.sleep(0.3)
    sys.exit(40 + len(count))
"""
    process = begun(body.strip())
    assert process.stdout.readline() == "ready\n"
    (os.killpg if everybody else os.kill)(process.pid, number)
    _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (41, "")


def test_who_ends_by_a_signal_is_seen_to_do_so():
    process = begun("print('ready', flush=True); time.sleep(60)")
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


def test_the_work_ends_with_its_parent():
    process = begun("print(os.getpid(), flush=True); time.sleep(600)")
    child = int(process.stdout.readline())
    process.kill()
    process.wait(60)
    until = time.monotonic() + 60
    while is_alive(child):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_every_long_command_is_one():
    assert set(cli.LONG) <= set(cli.command().commands)


def test_the_program_is_supervised(tmp_path):
    """A model of one's own that ends the process with 0 under a gate."""
    (tmp_path / "own.py").write_text("import os\nos._exit(0)\n")
    (tmp_path / "s.toml").write_text(
        'name = "own"\ndata.name = "synthetic"\nmodel.name = "own:Model"\ngate.psnr = 20.0\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "fedpriv", "run", "s.toml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert ENDED in done.stderr and "exit code 0" in done.stderr
