"""Says what happened when this process is ended from below, where no Python code runs any more.

Ray does that: when its store dies during a large message, it ends the whole process with code 1.
Long commands have a parent that says so (cli/supervised.py); a Python program that calls fedpriv
has a watcher.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# It reads until we say that all is well, or until we are gone. Its own session gets no Ctrl-C.
WATCHER = """
import sys
if not sys.stdin.buffer.read():
    sys.stderr.write(sys.argv[1] + "\\n")
"""
_watched_by_parent = False


def leave_to_parent() -> None:
    """From now on this process's parent says how it ended."""
    global _watched_by_parent
    _watched_by_parent = True


@contextmanager
def last_words(text: str) -> Iterator[None]:
    """If this process ends within the block and no error says why, `text` is printed."""
    if _watched_by_parent:
        yield
        return
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WATCHER, text],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        watcher.communicate(b"ended as it should")
