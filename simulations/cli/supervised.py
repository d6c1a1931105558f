"""A parent process that gives the exit code, so that nothing from below can give it.

Ray ends a whole process with code 1 when its store dies during a large message, and no Python code
runs any more. A model of one's own may call `os._exit(0)`, and the system may kill whoever takes
too much memory. A gate reads 0 as "holds" and 1 as "leaks". So long commands do their work in a
child. The child tells its parent the exit code that it has decided on. If it ends without that,
the work has failed: one message, and code 3.

Signals are for the child. It is a process group of its own, so that a Ctrl-C reaches it once.
"""

import ctypes
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from fedpriv.errors import WorkFailed
from fedpriv.simulations.federation import last_words

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
HANDLED = (*FORWARDED, signal.SIGTSTP)
DEATH = 1  # PR_SET_PDEATHSIG
ENDED = (
    "The work was ended from outside fedpriv ({how}): by the system, by code of your own, or by "
    "Ray, whose store may have died during a large message. There is no result. What was done "
    "before is kept; give the same command with --resume to go on."
)


def supervised(work: Callable[[], None]) -> NoReturn:
    """Do the work in a child, and end as it ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    told, tell = os.pipe()
    lifeline, held = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.close(told)
        os.close(held)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(DEATH, signal.SIGKILL)
        threading.Thread(target=end_with_parent, args=(lifeline,), daemon=True).start()
        last_words.leave_to_parent()
        code = decided(work)
        os.write(tell, str(code).encode())
        sys.exit(code)
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # a job in the background ignores Ctrl-C
            signal.signal(number, hand_on(child))
    os.close(tell)
    os.close(lifeline)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    _, status = os.waitpid(child, 0)
    os.set_blocking(told, False)  # a process that the child left behind may hold the other end
    try:
        word = os.read(told, 16)
    except BlockingIOError:
        word = b""
    end(word, os.waitstatus_to_exitcode(status))


def decided(work: Callable[[], None]) -> int:
    """The exit code of some work; an error that nobody planned is a failure, not a leak."""
    try:
        work()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception:
        traceback.print_exc()
        return WorkFailed.exit_code
    return 0


def end_with_parent(lifeline: int) -> None:
    """Wait until the parent is gone, however it went; then end at once, as if killed with it.

    Linux does that by itself, and at once (DEATH), but for a parent that was gone before.
    """
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def hand_on(child: int) -> Callable[[int, FrameType | None], None]:
    """A handler that gives a signal to the child. Ctrl-Z stops both, until both go on."""

    def handler(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGTSTP:
            os.kill(child, number)
            return
        os.kill(child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(child, signal.SIGCONT)

    return handler


def end(word: bytes, status: int) -> NoReturn:
    """End with the code that the child has decided on, or with the signal that was handed on."""
    if word:
        os._exit(int(word))
    if -status in FORWARDED:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    print(ENDED.format(how=how), file=sys.stderr, flush=True)
    os._exit(WorkFailed.exit_code)
