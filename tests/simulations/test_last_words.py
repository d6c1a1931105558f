"""A process that is ended from below still says so, and one that ends itself says nothing."""

import signal
import subprocess
import sys

import pytest

# A shell that starts jobs in the background makes them ignore SIGINT, and children inherit that.
PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedpriv.simulations.federation.last_words import last_words
with last_words("ended from below"):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("os._exit(1)", 1, True),  # what Ray calls
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, True),
        ("pass", 0, False),
        ("raise SystemExit(4)", 4, False),
        ("signal.raise_signal(signal.SIGINT)", 130, False),
        ("os.killpg(0, signal.SIGINT)", 130, False),  # Ctrl-C reaches the whole group
    ],
)
def test_who_is_ended_from_below_has_last_words(body, code, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
        check=False,
    )
    assert done.returncode in ({code, -signal.SIGINT} if code == 130 else {code})
    assert ("ended from below" in done.stderr) == said
