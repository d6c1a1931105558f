"""What `strongest` costs beside its winner: CPU time, one thread.

The race and the choice of the polish are what comes on top. The winner alone is the setting that
won, with the polish if `strongest` used it. Both attack the same clients, in turns.

    python benchmarks/race.py lenet:8 resnet20:8 [--rounds 3] [--write docs/measured]
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from _plain import FIRST, SEEDS, built, images, observed

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.race import Strongest
from fedpriv.data.dataset import Dataset
from fedpriv.eager import skip_compiler
from fedpriv.engine.memory import keep_pages
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.victims import stack

CLIENTS = "model and clients, as in lenet:8, lenet:4x4 (pictures a client), lenet:4x4x4 (steps)"


def timed(work: Callable[[], Reconstruction]) -> tuple[Reconstruction, float]:
    started = time.process_time()
    return work(), time.process_time() - started


def cost(data: Dataset, spec: str, rounds: int) -> dict[str, object]:
    """A row of the table."""
    model, _, sizes = spec.partition(":")
    count, batch, steps = (*map(int, sizes.split("x")), 1, 1)[:3]
    seen = observed(built(model, data, SEEDS[0]), data, count, batch, steps, FIRST)
    victims, whole, alone = stack(seen), [], []
    attack = ATTACKS.build("strongest", {})
    assert isinstance(attack, Strongest)
    ATTACKS.build("strongest", {"steps": 24, "polish": 2})(victims)  # warms up
    for _ in range(rounds):
        claim, seconds = timed(lambda: attack(victims))
        assert isinstance(claim, Reconstruction)
        whole.append(seconds)
        winner = attack.candidates[claim.extra["won"]]
        if not any(claim.extra["polished"]):
            winner = replace(winner, polish=0)
        alone.append(timed(lambda winner=winner: winner(victims))[1])
    ratios = [a / b for a, b in zip(whole, alone, strict=True)]
    return {
        "model": model,
        "clients": count,
        "pictures a client": batch,
        "steps": steps,
        "won": claim.extra["won"],
        "polished": any(claim.extra["polished"]),
        "winner alone (CPU s)": f"{statistics.median(alone):.1f}",
        "`strongest`, times that": f"{statistics.median(ratios):.2f}",
        "least and most": f"{min(ratios):.2f} to {max(ratios):.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("specs", nargs="*", default=["lenet:8", "resnet20:8"], help=CLIENTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the folder that the table is written to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    skip_compiler()
    keep_pages()
    data, rows = images(), []
    for spec in given.specs:
        rows.append(cost(data, spec, given.rounds))
        print(rows[-1], flush=True)
    if given.write:
        with (given.write / "attacks-race.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
