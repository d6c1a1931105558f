"""What a curious server's attacks cost the training beside them, in seconds a round.

The federation trains in one process on one thread, so that the attacks, a process of their own,
have a core to themselves where there are two. They are stopped in every second round, so that both
kinds of rounds see the same machine. For comparison a stranger's process, which only counts, is
stopped and let go in the same way.

    python -P benchmarks/curious.py [--rounds 60]
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import fedpriv

# Long enough for an attack to be under way most of the time.
ATTACK = {"name": "quick", "during": True, "victims": 1, "options": {"steps": 15}}
STRANGER = "n = 0\nwhile True:\n    n += 1"
LOOK = 0.01  # seconds between looks at how many rounds are over


def beside() -> list[int]:
    """The processes that this one started: the attacks, or the stranger."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def rounds_in(folder: Path) -> list[dict[str, float]]:
    path = folder / "rounds.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def every_second_round(folder: Path, rounds: int) -> Iterator[None]:
    """What runs beside is let go in odd rounds and stopped in even ones, until the last begins."""

    def switch() -> None:
        done = -1
        while done < rounds - 1 and not over.wait(LOOK):
            if (now := len(rounds_in(folder))) > done:
                done = now
                for pid in beside():
                    os.kill(pid, signal.SIGSTOP if done % 2 else signal.SIGCONT)
        for pid in beside():
            os.kill(pid, signal.SIGCONT)

    over = threading.Event()
    switching = threading.Thread(target=switch)
    switching.start()
    try:
        yield
    finally:
        over.set()
        switching.join()


def seconds(rounds: int, attacks: list[object], out: Path) -> list[float]:
    """Of each round but the first two, which pay for start-up, and the last."""
    with every_second_round(out, rounds):
        fedpriv.run(
            "quickstart",
            settings={
                "federation.rounds": rounds,
                "federation.backend": "inline",
                "training.batch-size": 8,
                "attacks": attacks,
                "keep-truth": False,  # originals are written for scoring, not for the server
            },
            out=out,
            quiet=True,
        )
    return [row["seconds"] for row in rounds_in(out)[2:-1]]


@contextmanager
def stranger() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", STRANGER])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ways: dict[str, tuple[list[object], AbstractContextManager[None]]] = {
        "attacks": ([ATTACK], nullcontext()),
        "a stranger": ([], stranger()),
    }
    for way, (attacks, company) in ways.items():
        with TemporaryDirectory() as folder, company:
            found = seconds(given.rounds, attacks, Path(folder) / "run")
        busy, free = found[::2], found[1::2]
        ratio = statistics.median(a / b for a, b in zip(busy, free, strict=False))
        medians = {"with": statistics.median(busy), "without": statistics.median(free)}
        row = {key: round(value, 3) for key, value in {**medians, "ratio": ratio}.items()}
        print(json.dumps({"beside": way, **row}), flush=True)


if __name__ == "__main__":
    main()
