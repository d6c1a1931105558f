"""A client's own folder: where it is, who counts as a real client, and one process at a time.

The folder is $FEDPRIV_STATE or `state-folder` in the client's node configuration. A simulated
client has none: the scenario's author and the clients' owner are one person.
"""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context

from fedpriv.errors import BadFolder

FOLDER, VARIABLE, SIMULATED = "state-folder", "FEDPRIV_STATE", "secret-seed"


def simulated(context: Context) -> bool:
    """Whether this client is a simulation's, ours or Flower's own (its clients are Ray actors)."""
    ray = sys.modules.get("ray")
    return SIMULATED in context.node_config or (ray is not None and ray.is_initialized())


def folder_of(context: Context) -> Path | None:
    """A real client's own folder."""
    given = context.node_config.get(FOLDER) or os.environ.get(VARIABLE)
    return Path(str(given)) if given and not simulated(context) else None


@contextmanager
def alone_in(folder: Path, name: str = "lock") -> Iterator[None]:
    """Wait for a lock of the folder: a second run must not overwrite what the first has spent."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / name, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise BadFolder(
            f"The state folder '{folder}' cannot be used: {error.strerror}; name a folder of the "
            "client's own."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
