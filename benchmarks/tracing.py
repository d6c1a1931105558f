"""Owners by the nearest reconstruction (SPN alg. 6): docs/measured/tracing.csv.

`python benchmarks/tracing.py FOLDER…` reads the reconstructions of run folders (of all their
variants). Every sample that a client holds is a query, whether an update was made of it or not.
"""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedpriv.evidence.claims import Reconstruction
from fedpriv.metrics.images import psnr
from fedpriv.metrics.matching import nearest
from fedpriv.metrics.permutations import chance_of
from fedpriv.metrics.rates import exact_interval
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.built import shares_of, training_samples
from fedpriv.simulations.judging.attacking import labels_of

OUT = Path(__file__).parents[1] / "docs" / "measured" / "tracing.csv"
Row = dict[str, Any]


def runs_in(path: Path) -> list[RunFolder]:
    """The run, or its variants."""
    if (path / "scenario.toml").exists():
        return [RunFolder(path)]
    return [RunFolder(one.parent) for one in sorted(path.glob("*/rounds.jsonl"))]


def rows_of(run: RunFolder) -> Iterator[Row]:
    """What the reconstructions of each attack say of all samples that clients hold."""
    scenario = run.scenario()
    x, _ = training_samples(scenario)
    shares = shares_of(scenario)
    queries = torch.from_numpy(np.concatenate(shares))
    owner = torch.cat([torch.full((len(own),), node) for node, own in enumerate(shares)])
    for label in labels_of(scenario.attacks):
        drawn, whose, used, quality = [], [], [], []
        for claim in run.claims(label):
            (name,) = claim.names
            truth = run.truth_of(name)
            if truth is None or not isinstance(claim, Reconstruction):
                continue
            guesses, real = claim.views(truth, *claim.pairs(truth))["sample"]
            drawn.append(guesses)
            whose.append(torch.full((len(guesses),), truth.node))
            used.append(truth.indices)
            quality.append(psnr(guesses, real))
        if not drawn:
            continue
        pixels = claim.as_pixels(x[queries])
        guess = torch.cat(whose)[nearest(pixels, torch.cat(drawn))]
        known = torch.isin(queries, torch.cat(used))
        yield {
            "scenario": scenario.name,
            "variant": run.path.name,
            "seed": scenario.seed,
            "attack": label,
            "reconstructions": len(torch.cat(whose)),
            "median PSNR": f"{torch.cat(quality).median():.1f}",
            **hits("", guess, owner),
            **hits("of reconstructed samples, ", guess[known], owner[known]),
            **hits("of others, ", guess[~known], owner[~known]),
            "p of a permutation": f"{chance_of(guess.numpy(), owner.numpy()):.4f}",
            "chance": f"{1 / len(shares):.4f}",
        }


def hits(about: str, guess: torch.Tensor, owner: torch.Tensor) -> Row:
    """How many queries are said to be their owner's, with the exact interval."""
    right, count = int((guess == owner).sum()), len(owner)
    low, high = exact_interval(right, count)
    figures = {"owner right": right / count, "low": low, "high": high}
    return {f"{about}queries": count} | {about + k: f"{v:.4f}" for k, v in figures.items()}


def main(folders: list[str]) -> None:
    rows = [row for folder in folders for run in runs_in(Path(folder)) for row in rows_of(run)]
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main(sys.argv[1:])
