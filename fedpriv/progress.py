"""Progress: long work calls it to say how far it is, and is told whether to go on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TOLD = "fedpriv.told"  # the logger of what a command waits for

Progress = Callable[[float, float], bool]  # part done in [0, 1], loss -> whether to go on


def go_on(part: float, loss: float) -> bool:
    """A progress that never stops anybody."""
    return True


_going_on: ContextVar[Callable[[], bool]] = ContextVar("going_on", default=lambda: True)


@contextmanager
def wanted_while(going_on: Callable[[], bool]) -> Iterator[None]:
    """Work of this thread within the block is wanted as long as `going_on` says so."""
    token = _going_on.set(going_on)
    try:
        yield
    finally:
        _going_on.reset(token)


def still_wanted(part: float, loss: float) -> bool:
    """The progress of a client's own training, which no progress can be handed to.

    Between a simulation and its clients are Flower's messages. A client in the same process learns
    here that the run was stopped. Everywhere else the answer is yes.
    """
    return _going_on.get()()


class Told:
    """A progress that remembers whether it has said stop; from then on it keeps saying so."""

    def __init__(self, progress: Progress = go_on) -> None:
        self.progress, self.stopped = progress, False

    def __call__(self, part: float, loss: float) -> bool:
        self.stopped = self.stopped or not self.progress(part, loss)
        return not self.stopped

    def within(self, start: float, end: float) -> Progress:
        """The progress of one stage of the work, which takes it from `start` to `end`."""
        return lambda part, loss: self(start + part * (end - start), loss)
