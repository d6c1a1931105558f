"""Ctrl-C and SIGTERM ask long work to stop and keep what it has; a second one ends it at once."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fedpriv.progress import Progress, go_on

STOPPING = b"stopping: what was found is kept; ask once more to end at once\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class UntilFile:
    """A progress that says stop once a file is there. Work in other processes is told so."""

    path: Path

    def __call__(self, part: float, loss: float) -> bool:
        return not self.path.exists()


@contextmanager
def stoppable() -> Iterator[Progress]:
    """A progress that says stop once a signal has come, while the block lasts.

    Only the main thread hears of signals; in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield go_on
        return
    asked = threading.Event()

    def handler(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        with suppress(OSError):
            os.write(sys.stderr.fileno(), STOPPING)  # print is not safe inside a signal handler

    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield lambda part, loss: not asked.is_set()
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)
