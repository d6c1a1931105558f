"""Ray, started here or joined elsewhere."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedpriv.errors import BadOption, WorkFailed

log = logging.getLogger(__name__)
TRIES = 3  # Ray gives its own daemon 30 s to start, which a busy machine may miss
OBJECT_STORE = 512 * 2**20


def connect(address: str | None = None, cpus: int | None = None) -> None:
    """Join the cluster at `address`, or start one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    if ray.is_initialized():
        return
    with own_sigterm():
        start(address, cpus)


@contextmanager
def own_sigterm() -> Iterator[None]:
    """SIGTERM means afterwards what it meant before: ray.init puts a handler of its own there."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


def start(address: str | None, cpus: int | None) -> None:
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise BadOption(f"No Ray cluster answers at '{address}': {error}.") from error
        return
    for attempt in range(1, TRIES + 1):
        try:
            ray.init(
                address="local",
                num_cpus=cpus or os.cpu_count(),
                include_dashboard=False,
                object_store_memory=OBJECT_STORE,
                **quiet,
            )
            return
        except Exception as error:
            log.warning("Ray did not start (try %d of %d): %s", attempt, TRIES, error)
            ray.shutdown()
    raise WorkFailed(f"Ray did not start in {TRIES} tries; use federation.backend = 'inline'.")


@contextmanager
def cluster(address: str | None = None, cpus: int | None = None) -> Iterator[None]:
    """Ray while the block runs; one that was there before stays."""
    import ray

    owned = not ray.is_initialized()
    connect(address, cpus)
    try:
        yield
    finally:
        if owned:
            ray.shutdown()
