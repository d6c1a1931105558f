"""Ray, started here or joined elsewhere; nobody without its token is answered."""

import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fedpriv.errors import BadOption, WorkFailed
from fedpriv.progress import TOLD
from fedpriv.simulations.federation.last_words import last_words
from fedpriv.simulations.federation.ray_life import elsewhere, own_daemons, watched
from fedpriv.simulations.federation.ray_token import check_closed, fresh_token, is_closed, token_of

log, told = logging.getLogger(__name__), logging.getLogger(TOLD)
TRIES = 3  # Ray gives its own daemon 30 s to start, which a busy machine may miss
CLIENT = "ray://"  # begins the address of Ray's proxy for drivers elsewhere
OBJECT_STORE = 512 * 2**20
# Bytes of a message that goes straight to an actor. A larger one goes through Ray's store, and when
# the store ends in the middle of that, it ends this process with code 1 and without a word.
INLINE = 8 * 2**20
# By default Ray's workers give way to everybody (niceness 15). Beside other work of the machine a
# client then does not even start within the time that it has to answer.
SETTINGS = {"max_direct_call_object_size": INLINE, "worker_niceness": 0}
KILLED = (
    "This process was ended from outside, or by Ray, whose store may have died during a large "
    "message. An exit code of 1 means that then, and no leak. What was done before is kept; give "
    "the same command with --resume to go on."
)
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
LONGEST = 40  # characters of a folder in which the names of Ray's sockets fit into 107


@contextmanager
def cluster(
    address: str | None = None,
    cpus: int | None = None,
    insecure: bool = False,
    gpus: int | None = None,
) -> Iterator[None]:
    """Ray while the block runs, joined at `address` or started here.

    A Ray that was there before stays. `gpus` are logical ones for a machine without any; None
    counts those of the machine.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if is_running():
        if not is_closed():
            log.warning(
                "The Ray of this process asks nobody for a token: whoever reaches it runs code as "
                "you. Start it with RAY_AUTH_MODE=token, or let fedpriv start its own."
            )
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(last_words(KILLED))
        if address:
            told.info("joining the Ray cluster at %s", address)
            stack.enter_context(token_of(address, insecure))
            with own_sigterm():
                why_lost = joined(address, insecure)
        else:
            told.info("starting Ray on this machine, which takes up to two minutes")
            stack.enter_context(fresh_token())
            folder = stack.enter_context(private_folder())
            with own_sigterm():
                why_lost = started(folder, cpus, gpus)
        import ray
        from ray._private import auto_init_hook

        # A call after the end would start a Ray by itself, without a token.
        auto_init_hook.enable_auto_connect = False
        stack.callback(ray.shutdown)
        stack.enter_context(watched(why_lost))
        yield


@contextmanager
def own_sigterm() -> Iterator[None]:
    """SIGTERM means afterwards what it meant before: ray.init puts a handler of its own there."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def is_running() -> bool:
    """Whether this process has a Ray already; one that never imported it has none."""
    import sys

    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that its owner alone can enter; Ray opens its own, so it gets one inside."""
    place = None if len(tempfile.gettempdir()) < LONGEST - len("/fedpriv-12345678/r") else "/tmp"
    outer = Path(tempfile.mkdtemp(prefix="fedpriv-", dir=place))
    try:
        yield outer / "r"
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def joined(address: str, insecure: bool) -> Callable[[], str]:
    """Join the cluster at `address`; what tells whether it is still there."""
    import ray

    try:
        ray.init(address=address, **QUIET)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise BadOption(
            f"No Ray cluster answers at '{address}' with this token: {error}."
        ) from error
    found = address.removeprefix(CLIENT)
    if not address.startswith(CLIENT):
        found = ray.get_runtime_context().gcs_address
    try:
        if not insecure:
            check_closed(found)
    except BadOption:
        ray.shutdown()
        raise
    return elsewhere(found)


def started(folder: Path, cpus: int | None, gpus: int | None = None) -> Callable[[], str]:
    """Start Ray on this machine; what tells whether it is still there."""
    import ray

    for attempt in range(1, TRIES + 1):
        try:
            ray.init(
                address="local",
                num_cpus=cpus or os.cpu_count(),
                num_gpus=gpus,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE,
                _temp_dir=str(folder),
                _system_config=SETTINGS,
                **QUIET,
            )
            return own_daemons()
        except Exception as error:
            log.warning("Ray did not start (try %d of %d): %s", attempt, TRIES, error)
            ray.shutdown()
    raise WorkFailed(f"Ray did not start in {TRIES} tries; use federation.backend = 'inline'.")
