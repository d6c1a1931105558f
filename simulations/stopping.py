"""Ctrl-C: asks long work to stop and keep what it has; a second one ends it at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fedpriv.progress import Progress, go_on


@contextmanager
def stoppable() -> Iterator[Progress]:
    """A progress that says stop after Ctrl-C, while the block lasts.

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

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield lambda part, loss: not asked.is_set()
    finally:
        signal.signal(signal.SIGINT, before)
