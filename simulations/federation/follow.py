"""Attacks while the federation trains, in a process of its own with a lower priority.

It watches the folder of observations and ends when its standard input does: when training is over,
or when the process that started it is gone. Cores share caches and memory, which niceness does not
divide, so it rests as long as it works while training goes on.
"""

import logging
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedpriv.errors import FedprivError
from fedpriv.progress import Progress, Told, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.stopping import stoppable

log = logging.getLogger(__name__)
PAUSE, NICENESS, PATIENCE = 0.5, 10, 600.0
SHIFT = 0.2  # seconds of work, and then of rest


@contextmanager
def following(folder: RunFolder, scenario: Scenario, told: Told | None = None) -> Iterator[None]:
    """Attack in the background while the block runs, when an attack wants that.

    Where `told` has said stop, the attack under way is told so too and saves what it has.
    """
    if not any(attack.during for attack in scenario.attacks):
        yield
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    with folder.attacks_log.open("ab") as text:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedpriv.simulations.federation.follow", str(folder.path)],
            stdin=subprocess.PIPE,
            stdout=text,
            stderr=text,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if told is not None and told.stopped:
            process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            log.warning("the attacks in the background took too long; they are done again")


def follow(folder: RunFolder, progress: Progress = go_on) -> None:
    """Attack what is recorded, over and over, until standard input ends or `progress` says stop."""
    from fedpriv.simulations.judging.attacking import claimed, labels_of
    from fedpriv.simulations.judging.recordings import of_run

    ended, told = False, Told(progress)
    while not ended and told(0.0, math.nan):
        ready, _, _ = select.select([sys.stdin], [], [], PAUSE)
        ended = bool(ready)
        if not folder.has_evidence():
            continue
        scenario = folder.scenario()
        recording = of_run(folder)
        for attack, label in zip(scenario.attacks, labels_of(scenario.attacks), strict=True):
            if attack.during:
                claimed(recording, attack, label, folder, progress=told)


def rest(*_: object) -> None:
    """A shift's length, or until training is over."""
    select.select([sys.stdin], [], [], SHIFT)


def main() -> None:
    import torch

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    os.nice(NICENESS)
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, rest)
    signal.setitimer(signal.ITIMER_PROF, SHIFT, SHIFT)
    try:
        with stoppable() as progress:
            follow(RunFolder(Path(sys.argv[1])), progress)
    except FedprivError as error:
        log.warning("the attacks in the background ended: %s", error)


if __name__ == "__main__":
    main()
