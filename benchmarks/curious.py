"""What a curious server costs the training it spies on: seconds a round with and without it, side by side.

The federation trains in one process on one thread, so that the attacks, a process of their own, have a
core to themselves where there are two. Cores share caches and memory, so that any neighbour costs
something: the second way trains beside a stranger's convolutions. Of each way the fastest trial counts: other
work on the machine only adds.

    python -P benchmarks/curious.py [--rounds 8] [--trials 5]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import fedpriv

# Long enough for an attack to be under way most of the time.
ATTACK = {"name": "quick", "during": True, "victims": 1, "options": {"steps": 15}}
STRANGER = """
import torch
torch.set_num_threads(1)
x, w = torch.randn(64, 16, 28, 28), torch.randn(16, 16, 5, 5)
while True:
    torch.nn.functional.conv2d(x, w)
"""


@contextmanager
def stranger() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", STRANGER])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def per_round(rounds: int, spied_on: bool, out: Path) -> float:
    """Median seconds a round, the first, which pays for start-up, left out."""
    found = fedpriv.run(
        "quickstart",
        settings={
            "federation.rounds": rounds,
            "federation.backend": "inline",
            "training.batch-size": 8,
            "attacks": [ATTACK] if spied_on else [],
            "audit": False,  # originals are written for scoring, not for the server
        },
        out=out,
        quiet=True,
    )
    return float(found.rounds["seconds"][1:].median())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--trials", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    ways = {"alone": nullcontext, "stranger": stranger, "curious": nullcontext}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(given.trials):
        for way, beside in ways.items():
            with TemporaryDirectory() as folder, beside():
                found = per_round(given.rounds, way == "curious", Path(folder) / way)
            seconds[way].append(found)
    for way, times in seconds.items():
        row = {"way": way, "seconds": [round(value, 3) for value in times]}
        print(json.dumps({**row, "ratio": round(min(times) / min(seconds["alone"]), 3)}))


if __name__ == "__main__":
    main()
