"""Clients as forks of one loaded parent: `fedpriv deploy up --shared`, for tests on one machine.

A SuperNode needs Flower in memory and a client's executor needs torch as well: hundreds of
megabytes each, the same in all of them. Here the supervisor loads all of it once, and every
SuperNode and every executor is a fork of it that shares those pages.

A fork keeps what belongs to its own service only. It closes every file that the parent had open,
gets the environment of its service and nothing else, a umask of its own, and new random numbers
(a fork would go on with its parent's, and so would every other client). All are processes of one
user all the same, and such processes can read each other's files and memory: clients of different
owners belong into containers or on machines of their own, never here.
"""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from fedpriv.errors import WorkFailed

Main = Callable[[], None]
EXECUTOR = "fedpriv.clients.protection.executor"
TERMS = "fedpriv.clients.protection.template"
STOPPING = (signal.SIGTERM, signal.SIGINT)
NAME, DEATH = 15, 1  # of prctl
POLL, QUESTIONS = "FLWR_SUPEREXEC_TASK_POLL_INTERVAL", 40.0  # a second, of all executors together


def main_of(command: Sequence[str]) -> Main | None:
    """What a command would run, when it is one that is loaded here."""
    if command[0] == "flower-supernode":
        from fedpriv.flower import flower_supernode

        return flower_supernode
    if tuple(command[:2]) == ("python", "-m") and command[2] in (EXECUTOR, TERMS):
        main: Main = import_module(command[2]).main
        return main
    return None


def options_of(command: Sequence[str]) -> list[str]:
    """The command as its `main` finds it in sys.argv."""
    return list(command[2:]) if command[0] == "python" else list(command)


def paced(environment: Mapping[str, str], clients: int) -> dict[str, str]:
    """The environment of an executor that asks for work less often the more of them there are.

    Every question costs a few milliseconds on either side; hundreds a second would leave no time
    for the work itself.
    """
    asked = float(environment.get(POLL, "1"))
    return {**environment, POLL: f"{max(asked, clients / QUESTIONS):.2f}"}


def load() -> None:
    """Everything that SuperNodes and executors import; nothing computes, so that no thread runs."""
    from fedpriv.clients.protection import executor
    from fedpriv.flower import flower_superexec, flower_supernode, run_clientapp  # noqa: F401

    import_module("flwr.supernode.main")  # imported by a SuperNode when it starts to listen
    import_module(TERMS)
    executor.load()
    gc.collect()
    gc.freeze()  # a collection in a fork would otherwise write to the pages it shares
    tasks = Path("/proc/self/task")
    threads = len(list(tasks.iterdir())) if tasks.exists() else 1
    if threads > 1:
        raise WorkFailed(
            f"{threads} threads run after loading, and threads do not survive a fork; set "
            "OMP_NUM_THREADS=1, or start the federation without --shared."
        )


class Forked:
    """A forked service, as far as `subprocess.Popen` is needed for one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.collected(os.WNOHANG)

    def wait(self) -> int:
        code = self.collected(0)
        assert code is not None
        return code

    def collected(self, how: int) -> int | None:
        if self.returncode is None:
            try:
                ended, status = os.waitpid(self.pid, how)
            except ChildProcessError:
                ended, status = self.pid, 0
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def forked(
    main: Main,
    words: Sequence[str],
    *,
    name: str,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
) -> Forked:
    """`main` in a fork of this process, with these words, environment, folder and log only."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # none may reach the fork too early
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return Forked(child)
    code = 1
    try:
        become(name, words, environment, folder, log)
        main()
        code = 0
    except SystemExit as done:
        code = ended_with(done)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        leave(code)


def become(
    name: str, words: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
) -> None:
    """In a fork: forget the parent, take on what the service has."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(DEATH, signal.SIGTERM)
        prctl(NAME, name.encode()[:15])
    os.setsid()
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    os.umask(0o077)
    out = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, out), (2, out)):
        os.dup2(source, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = list(words)
    draw_anew()


def draw_anew() -> None:
    """Random numbers of its own: a fork inherits those of its parent, as all the others do."""
    import random

    import numpy
    import torch

    random.seed()
    numpy.random.seed()
    torch.seed()


def ended_with(done: SystemExit) -> int:
    if done.code is None or isinstance(done.code, int):
        return done.code or 0
    print(done.code, file=sys.stderr)
    return 1


def leave(code: int) -> NoReturn:
    """End without the exit handlers of the parent."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
