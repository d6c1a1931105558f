"""A board on Ray: workers say how far they are, and hear whether to go on.

Workers on other machines share no file with the command that waits for them.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from fedpriv.simulations.federation.ray_life import LOOK, check_alive

GRACE = 20.0  # seconds that tasks under way have to end in when the command is stopped
RETRIES = 3  # of a task whose worker or node died


class Notes:
    """What is on the board."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.stopped = False

    def say(self, task: str, part: float) -> bool:
        """Note how far a task is; whether it is to go on."""
        self.parts[task] = part
        return not self.stopped

    def stop(self) -> None:
        self.stopped = True

    def read(self) -> dict[str, float]:
        return self.parts


class Board:
    """The board of a command: an actor on its own machine, which no dead node takes away.

    The place is a must: an actor that needs no CPU is put on any node where it is only a wish.
    """

    def __init__(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here: Any = NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        self.notes: Any = ray.remote(num_cpus=0, scheduling_strategy=here)(Notes).remote()
        self._asked: Any = None
        self._parts: dict[str, float] = {}

    def stop(self) -> None:
        self.notes.stop.remote()

    def part(self, tasks: Sequence[str]) -> float:
        """How much of these tasks was done when last heard of, as a number of tasks."""
        import ray

        self._asked = self._asked or self.notes.read.remote()
        ready, _ = ray.wait([self._asked], timeout=0)
        if ready:
            check_alive()
            self._asked = None
            with suppress(ray.exceptions.RayError):  # what is known of the others still holds
                self._parts = ray.get(ready[0])
        return sum(self._parts.get(task, 0.0) for task in tasks)


class Saying:
    """The progress of one task on a worker: it asks the board every second, and waits for nothing.

    A board that cannot be reached stops nobody.
    """

    def __init__(self, notes: Any, task: str) -> None:
        self.notes, self.task = notes, task
        self.going_on, self._next = True, 0.0
        self._asked: Any = None

    def __call__(self, part: float, loss: float) -> bool:
        import ray

        if self._asked is None and time.monotonic() >= self._next:
            self._asked = self.notes.say.remote(self.task, part)
            self._next = time.monotonic() + LOOK
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            answer, self._asked = self._asked, None
            with suppress(ray.exceptions.RayError):
                self.going_on = self.going_on and bool(ray.get(answer))
        return self.going_on
