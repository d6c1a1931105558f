"""How a command ends when something fails that nobody planned.

It ends with one message, and with an exit code that says who has to act.
"""

import errno
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from fedpriv.errors import WorkFailed

P = ParamSpec("P")
T = TypeVar("T")
HINTS = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit of a file's size",
    errno.EROFS: "give an --out that can be written",
    errno.EACCES: "give an --out that can be written",
    errno.EPERM: "give an --out that can be written",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def guarded(command: Callable[P, T]) -> Callable[P, T]:
    """The command; a full disk, little memory or foreign code that exits ends it with a message."""

    @wraps(command)
    def called(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return command(*arguments, **named)
        except BrokenPipeError:
            raise
        except OSError as error:
            hint = HINTS.get(error.errno or 0, "look at the file or device")
            raise WorkFailed(
                f"{error.strerror or error}: '{error.filename or 'a file'}'. What was finished "
                f"before is kept: {hint}, then go on with --resume."
            ) from error
        except MemoryError as error:
            raise WorkFailed(
                f"There is too little memory: {error}. Take a smaller model, batch or data.limit."
            ) from error
        except SystemExit as error:
            raise WorkFailed(
                f"Code outside fedpriv called sys.exit({error.code!r}) in the middle of the work; "
                "a model, plugin or data set must raise an error instead."
            ) from error

    return called
