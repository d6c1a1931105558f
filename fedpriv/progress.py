"""Progress: long work calls it to say how far it is, and is told whether to go on."""

from collections.abc import Callable

Progress = Callable[[float, float], bool]  # part done in [0, 1], loss -> whether to go on


def go_on(part: float, loss: float) -> bool:
    """A progress that never stops anybody."""
    return True


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
