"""The calls of attacks as tasks of a Ray cluster.

Evidence goes into Ray's object store once, and every attack on it reads it there. Claims come back
through the store and are written here, so that nodes need no folder in common. The tasks of a node
that dies are done again by another one.
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from fedpriv.device import device_of
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Claim
from fedpriv.progress import TOLD, Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.federation.board import GRACE, RETRIES, Board, Saying
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.federation.gpus import take_given
from fedpriv.simulations.federation.ray_life import LOOK, check_alive
from fedpriv.simulations.judging.attacking import (
    Recording,
    Tell,
    Todo,
    labels_of,
    saved,
    todo_of,
)
from fedpriv.simulations.judging.calls import Answer, Call, Failure, Work, attacked, failure_of

said = logging.getLogger(TOLD)


def _called(call: Call, work: Work, notes: Any, task: str) -> list[Claim] | Failure:
    """One call on the device that Ray gave to this worker."""
    take_given()
    torch.set_num_threads(1)
    device = device_of("auto")
    try:
        method = call.built(device)
    except Exception as error:  # a part of somebody's own that this node does not have
        return failure_of(error, call.label, work.names)
    return attacked(call, method, work, device, Told(Saying(notes, task)))


@dataclass
class Running:
    """The calls of one attack that are under way, each with the name of its task."""

    todo: Todo
    calls: dict[Any, tuple[str, Work]]


@dataclass
class Spread:
    """Attacks on the Ray of this process, by their labels, from when they are begun."""

    gpus: float
    board: Board
    stored: dict[tuple[int, ...], tuple[Any, Any]] = field(default_factory=dict)
    running: dict[str, Running | list[Failure]] = field(default_factory=dict)

    def begin(self, recording: Recording, attacks: Sequence[Attack], folder: RunFolder) -> None:
        """Hand out all calls of all attacks."""
        for attack, label in zip(attacks, labels_of(attacks), strict=True):
            todo = todo_of(recording, attack, label, folder)
            self.running[label] = todo if isinstance(todo, list) else self.begun(todo)

    def begun(self, todo: Todo) -> Running:
        import ray

        remote = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=RETRIES)(_called)
        call, calls = ray.put(todo.call), {}
        for number, work in enumerate(todo.works):
            task = f"{todo.call.label} {number}"
            calls[remote.remote(call, self.kept(work), self.board.notes, task)] = (task, work)
        return Running(todo, calls)

    def claimed(
        self,
        recording: Recording,
        attack: Attack,
        label: str,
        folder: RunFolder,
        tell: Tell,
        told: Told,
    ) -> list[Failure]:
        """As `attacking.claimed`, with the answers of the workers."""
        found = self.running.pop(label)
        if isinstance(found, list):
            return found
        return saved(found.todo, self.answers(found, told, tell), attack, folder, tell)

    def kept(self, work: Work) -> Any:
        """The victims in Ray's store, put there for the first attack that looks at them."""
        import ray

        seen = work.evidence if isinstance(work.evidence, list) else [work.evidence]
        key = tuple(map(id, seen))
        if key not in self.stored:
            self.stored[key] = ray.put(work), work  # the work too: ids stay its own
        return self.stored[key][0]

    def answers(self, begun: Running, told: Told, tell: Tell) -> Iterator[Answer]:
        """The claims of an attack as they come in; once stopped, those that come in time."""
        import ray

        todo, running = begun.todo, begun.calls
        label, ends, shown = todo.call.label, None, 0
        while running and (ends is None or time.monotonic() < ends):
            ready, _ = ray.wait(list(running), num_returns=1, timeout=LOOK)
            check_alive()
            if ends is None and not told(len(todo.done) / max(1, todo.total), math.nan):
                self.board.stop()
                ends = time.monotonic() + GRACE
            for reference in ready:
                _, work = running.pop(reference)
                try:
                    yield work, ray.get(reference)
                except ray.exceptions.RayError as error:
                    why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                    yield work, Failure(label, work.names, why)
            part = self.board.part([task for task, _ in running.values()])
            each = sum(len(work.names) for _, work in running.values()) / max(1, len(running))
            now = len(todo.done) + int(part * each)
            if now > max(shown, len(todo.done)):
                tell(label, now, todo.total)
            shown = now
        for reference in running:
            ray.cancel(reference, force=True)


@contextmanager
def spread_over(
    address: str | None = None, workers: int = 1, gpus: float = 0.0, insecure: bool = False
) -> Iterator[Spread | None]:
    """Where attacks are called: None is this process, otherwise a cluster or workers here."""
    if address is None and workers <= 1 and not gpus:
        yield None
        return
    with cluster(address, None if address else workers, insecure):
        import ray

        has = ray.cluster_resources()
        cpus, cards = has.get("CPU", 0.0), has.get("GPU", 0.0)
        if cpus < 1 or cards < gpus:
            why = f"a worker takes 1 CPU and {gpus:g} GPUs, and Ray has {cpus:g} and {cards:g} now"
            if address is None:
                raise BadOption(f"--gpus-per-worker: {why}.")
            said.warning("%s: attacks wait until the cluster has grown", why)
        yield Spread(gpus, Board())
