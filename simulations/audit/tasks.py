"""Tasks of an audit: one attack on one cell, or one race there; in this process or on Ray."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fedpriv.errors import WorkFailed
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.audit.battery import Method, Raced, ranked
from fedpriv.simulations.federation.board import GRACE, RETRIES, Board, Saying
from fedpriv.simulations.federation.gpus import take_given
from fedpriv.simulations.federation.ray_life import LOOK, check_alive
from fedpriv.simulations.federation.run import deliberate_threads
from fedpriv.simulations.judging.attacking import claimed
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.recordings import of_run

T = TypeVar("T", covariant=True)
STOPPED = WorkFailed("the audit was interrupted")
PART = 128  # samples: fewer side by side take longer each


class Task(Protocol[T]):
    """Work that a process of its own can do, until it is told to stop."""

    def __call__(self, progress: Progress) -> T: ...


def until(deadline: float) -> Progress:
    """Go on until a moment of the system's clock: other machines have no other one in common."""
    return lambda part, loss: time.time() <= deadline


@dataclass(frozen=True)
class Done:
    """What came of an attack: why it failed or was cut short, and the seconds it computed.

    `refused` says that the attack itself found that it can act on no victim here.
    """

    why: str
    seconds: float
    refused: bool = False


@dataclass(frozen=True)
class AttackTask:
    """One attack on the first clients of a cell; its claims are in the cell's folder.

    A long one is several tasks, each on its part of the clients.
    """

    place: Path
    method: Method
    clients: int
    part: int = 0
    parts: int = 1

    def __call__(self, progress: Progress) -> Done:
        if not progress(0.0, math.nan):
            return Done("no time was left for it", 0.0)
        folder, started = RunFolder(self.place), time.process_time()
        recording = of_run(folder)
        own = recording.chosen(self.method.attack(self.clients))[self.part :: self.parts]
        failures = claimed(
            replace(recording, evidence=own),
            self.method.attack(),
            self.method.label,
            folder,
            progress=progress,
        )
        took = time.process_time() - started
        claims = list(folder.claims(self.method.label))
        if failures:
            refused = not claims and all(failure.refused for failure in failures)
            return Done(failures[0].why, took, refused)
        cut = any(claim.partial for claim in claims)
        return Done("cut short" if cut else "", took)


def in_parts(task: AttackTask, samples: int) -> list[AttackTask]:
    """A search as two tasks where it has samples enough for both, of `samples` a client.

    It does not depend on the machine, so that the claims do not either.
    """
    row, halves = row_of(task.method.name), task.clients * samples >= 2 * PART
    parts = 2 if halves and not (row.whole or row.pools) else 1
    return [replace(task, part=number, parts=parts) for number in range(parts)]


def put_together(parts: Sequence[Done | Exception]) -> Done | Exception:
    """What came of an attack that was several tasks."""
    failed = next((one for one in parts if isinstance(one, Exception)), None)
    done = [one for one in parts if isinstance(one, Done)]
    if failed is not None:
        return failed
    why = next((one.why for one in done if one.why), "")
    return Done(why, sum(one.seconds for one in done), all(one.refused for one in done))


@dataclass(frozen=True)
class RaceTask:
    """The race of the attacks that fit a cell, on planted clients."""

    place: Path
    evaluations: int

    def __call__(self, progress: Progress) -> Raced:
        folder = RunFolder(self.place)
        return ranked(of_run(folder), folder.scenario(), self.evaluations, progress)


Carry = Callable[[Sequence[Task[Any]], float], list[Any]]  # tasks and their deadline


def one_by_one(tasks: Sequence[Task[Any]], deadline: float, told: Told) -> list[Any]:
    """All tasks in this process; the error of one that failed stands in its place."""
    found = []
    for task in tasks:
        going_on = told(0.0, math.nan)
        found.append(_tried(task, deadline, told) if going_on else STOPPED)
    return found


def _tried(task: Task[Any], deadline: float, told: Progress = go_on) -> Any:
    deliberate_threads()
    in_time = until(deadline)
    try:
        return task(lambda part, loss: in_time(part, loss) and told(part, loss))
    except Exception as error:
        return error


def _tried_there(task: Task[Any], deadline: float, notes: Any, name: str) -> Any:
    """As `_tried`, on the device that Ray gave to this worker."""
    take_given()
    return _tried(task, deadline, Told(Saying(notes, name)))


def on_ray(tasks: Sequence[Task[Any]], deadline: float, told: Told, gpus: float = 0.0) -> list[Any]:
    """All tasks on the Ray that this process is connected to, one core and so many GPUs each.

    Once `told` says stop, tasks under way have GRACE seconds to end and keep what they found.
    """
    import ray

    board = Board()
    remote = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES)(_tried_there)
    references = [
        remote.remote(task, deadline, board.notes, str(number)) for number, task in enumerate(tasks)
    ]
    waiting, ends = list(references), math.inf
    while waiting and time.monotonic() < ends:
        _, waiting = ray.wait(waiting, num_returns=1, timeout=LOOK)
        check_alive()
        if ends == math.inf and not told(0.0, math.nan):
            board.stop()
            ends = time.monotonic() + GRACE
    for reference in waiting:
        ray.cancel(reference, force=True)
    found = []
    for reference in references:
        try:
            found.append(STOPPED if reference in waiting else ray.get(reference))
        except ray.exceptions.RayError as error:
            found.append(error)
    return found
