"""One process per folder: a lock that names its holder, and that ends with the process."""

import errno
import fcntl
import inspect
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from fedpriv.errors import BadFolder

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
LOCK = ".lock"
PAUSE = 0.2  # seconds between two tries
ORPHANS = 60.0  # seconds after which the workers of a process that was killed have ended too
_own = threading.local()  # the locks that this thread holds


@contextmanager
def held(place: Path, *, patience: float = 0.0, is_file: bool = False) -> Iterator[None]:
    """A folder, or a file, for this process alone while the block lasts; BadFolder says who has it.

    The system releases the lock when its holder ends, however it ends. A thread that holds it may
    take it again. `patience` is how many seconds another holder is waited for.
    """
    taken: set[Path] = _own.__dict__.setdefault("taken", set())
    path = lock_file(place, is_file)
    if path in taken:
        yield
        return
    descriptor, new = _locked(path, place, time.monotonic() + patience)
    taken.add(path)
    try:
        yield
    finally:
        taken.remove(path)
        path.unlink(missing_ok=True)  # while it is ours
        os.close(descriptor)
        if new and not any(path.parent.iterdir()):
            path.parent.rmdir()  # nothing came of it


def lock_file(place: Path, is_file: bool) -> Path:
    """The lock of a folder is inside it, that of a file beside it."""
    place = place.absolute()
    return place.with_name(f".{place.name}{LOCK}") if is_file else place / LOCK


def alone(patience: float = 0.0) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that has its `folder` (a run folder) or else its `out` (a file) for itself."""

    def decorated(work: Callable[P, T]) -> Callable[P, T]:
        takes = inspect.signature(work)

        @wraps(work)
        def locked(*arguments: P.args, **named: P.kwargs) -> T:
            given = takes.bind(*arguments, **named).arguments
            is_file = "folder" not in given
            place = given["out"] if is_file else given["folder"].path
            with held(place, patience=patience, is_file=is_file):
                return work(*arguments, **named)

        return locked

    return decorated


def _locked(path: Path, place: Path, until: float) -> tuple[int, bool]:
    """A descriptor that holds the lock of the file at `path`, and whether its folder is new."""
    new = False
    while True:
        try:
            new = new or not path.parent.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except (OSError, ValueError) as error:
            raise BadFolder(
                f"'{place}' cannot be written: {getattr(error, 'strerror', None) or error}; "
                "give another --out."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = _holder(descriptor)
            os.close(descriptor)
            if time.monotonic() >= until:
                raise BadFolder(
                    f"'{place}' is in use by {said}; wait until it has ended, or give another "
                    "--out."
                ) from None
            time.sleep(PAUSE)
            continue
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            log.warning("'%s' cannot be locked here (%s): use it once at a time", place, error)
        if _is_at(descriptor, path):
            _sign(descriptor)
            return descriptor, new
        os.close(descriptor)  # its holder removed it between our two steps


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _sign(descriptor: int) -> None:
    """Write who holds the lock into its file."""
    who = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200],
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(who).encode(), 0)
    except OSError as error:  # a full disk; the lock itself is held
        log.warning("the lock cannot say who holds it: %s", error)


def _holder(descriptor: int) -> str:
    try:
        who = json.loads(os.pread(descriptor, 4096, 0))
        return f"process {who['pid']} on {who['host']} ('{who['command']}') since {who['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
