"""Gradient inversion side by side: CPU time per image and iteration.

The reference is the plain loop of `_plain.py`, one client at a time. Ours attacks 1, 8 and 32
clients side by side. All run on one thread, in turn, in one process; a ratio is the median of the
ratios of the rounds.

    python benchmarks/attacks.py [--models lenet resnet20] [--victims 1 8 32] [--rounds 9]
    [--breaching] [--results speed.jsonl] [--write docs/measured]

--breaching takes the time of the library of that name as well, if it is installed. --results
keeps what was measured in a file, so that networks can be measured one after the other; --write
makes the table of all that the file has. How strong the attacks are: `strength.py`.
"""

import argparse
import csv
import json
import logging
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from _breaching import breaching_attack
from _plain import FIRST, NETS, REFERENCE_STEPS, TV, built, enlarged, images, observed, reference

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.data.dataset import Dataset
from fedpriv.eager import skip_compiler
from fedpriv.engine.memory import keep_pages
from fedpriv.evidence.victims import Victims, stack

# Iterations of each side in a round.
ITERATIONS = {"dlnet": 40, "lenet": 40, "resnet20": 8, "resnet20-gn": 8, "vit": 12, "convnet16": 6}
WIDE = ("convnet64", "resnet18-64px")  # at most 8 victims at once
PLAIN = "plain loop, ms per image and step"


def cpu_ms(work: Callable[[], object], share: int) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000 / share


def per_iteration(
    name: str, data: Dataset, sizes: list[int], rounds: int, peer: bool
) -> dict[str, str]:
    """A row of the table: the loop's time, and how many times faster the others are."""
    model, steps = built(name, data), ITERATIONS.get(name, 3)
    seen = observed(model, data, max(sizes, default=1))
    label, start = data.y_test[FIRST:][:1], torch.randn(1, *data.shape)
    stacked: dict[int, Victims] = {size: stack(seen[:size]) for size in sizes}
    ours = ATTACKS.build("adam+cosine", {"tv": TV, "steps": steps})
    works: dict[str, tuple[Callable[[], object], int]] = {
        PLAIN: (
            lambda: reference(model, seen[0], label, start, steps, REFERENCE_STEPS),
            steps,
        )
    }
    for size, victims in stacked.items():
        # One evaluation more than steps: the last point is looked at as well.
        works[_column(size)] = partial(ours, victims), (steps + 1) * size
    if peer:
        run = breaching_attack(model, seen[0], label, steps)
        works["breaching, times the loop"] = partial(run, start), steps
    taken = {what: [] for what in works}
    for number in range(rounds + 1):
        for what, (work, share) in works.items():
            spent = cpu_ms(work, share)
            if number:  # the first round warms up
                taken[what].append(spent)
    found = {"model": name, PLAIN: f"{statistics.median(taken[PLAIN]):.2f}"}
    for what, times in taken.items():
        if what != PLAIN:
            ratios = [a / b for a, b in zip(taken[PLAIN], times, strict=True)]
            found[what] = _told([1 / one for one in ratios] if "loop" in what else ratios)
    return found


def _column(size: int) -> str:
    return f"times faster, {size} {'victim' if size == 1 else 'victims'}"


def _told(ratios: list[float]) -> str:
    """The median, with the middle half of the rounds."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=["dlnet", "resnet20"], choices=list(NETS))
    parser.add_argument("--victims", nargs="*", type=int, default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--breaching", action="store_true", help="beside that library too")
    parser.add_argument("--results", type=Path, help="the file that rows are added to")
    parser.add_argument("--write", type=Path, help="the folder that the table is written to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("breaching").setLevel(logging.WARNING)
    skip_compiler()
    keep_pages()
    data, rows = images(), []
    for name in given.models:
        subject = enlarged(data) if name.endswith("64px") else data
        sizes = [size for size in given.victims if name not in WIDE or size <= 8]
        rows.append(per_iteration(name, subject, sizes, given.rounds, given.breaching))
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
        if given.results:
            with given.results.open("a") as file:
                file.write(json.dumps(rows[-1], ensure_ascii=False) + "\n")
    if given.results and given.results.exists():
        kept = [json.loads(line) for line in given.results.read_text().splitlines()]
        rows = list({row["model"]: row for row in kept}.values())  # the newest of each
    if given.write and rows:
        head = [PLAIN, *map(_column, (1, 8, 32)), "breaching, times the loop"]
        with (given.write / "attacks-speed.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, ["model", *head], restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
