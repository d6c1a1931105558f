"""Whether Ray is still there.

A Ray that has lost a daemon neither answers nor says so for a minute. Then it ends the whole
process without a message.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fedpriv.errors import WorkFailed

DAEMONS = ("gcs_server", "raylet")
LOOK = 1.0  # seconds between looks
PATIENCE = 15.0  # seconds that a cluster elsewhere may be out of reach
_whose: list[Callable[[], str]] = []  # why the Ray of this process is lost; "" while it lives


class RayLost(WorkFailed):
    """Ray itself has ended, not one of its workers."""


@contextmanager
def watched(why_lost: Callable[[], str]) -> Iterator[None]:
    """While the block lasts, `why_lost` is asked whether Ray is still there."""
    _whose.append(why_lost)
    try:
        yield
    finally:
        _whose.remove(why_lost)


def own_daemons() -> Callable[[], str]:
    """Looks at the daemons of the Ray that this process started."""
    from ray._private import worker

    node: Any = worker._global_node
    processes = {name: node.all_processes[name][0].process for name in DAEMONS}

    def why_lost() -> str:
        gone = [name for name, process in processes.items() if process.poll() is not None]
        return f"its process {gone[0]} is gone" if gone else ""

    return why_lost


def elsewhere(address: str) -> Callable[[], str]:
    """Looks whether a cluster on another machine can be reached."""
    host, _, port = address.rpartition(":")
    answered = time.monotonic()

    def why_lost() -> str:
        nonlocal answered
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK).close()
            answered = time.monotonic()
        except OSError as error:
            if time.monotonic() - answered > PATIENCE:
                return f"nobody answers at {address} ({error})"
        return ""

    return why_lost


def is_lost() -> str:
    return next((why for look in _whose if (why := look())), "")


def check_alive() -> None:
    """RayLost when the Ray of this process has ended."""
    if why := is_lost():
        raise RayLost(
            f"Ray has ended: {why}. What was done before is kept; give the same command with "
            "--resume to go on."
        )


def first_ready(references: Sequence[Any], at_look: Callable[[], None] = lambda: None) -> Any:
    """The first of some references that is ready; RayLost when Ray ends before."""
    import ray

    while True:
        at_look()
        check_alive()
        if not ray.is_initialized():
            raise RayLost("Ray was shut down before the work was done.")
        ready, _ = ray.wait(list(references), num_returns=1, timeout=LOOK)
        if ready:
            check_alive()
            return ready[0]
