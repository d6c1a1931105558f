"""ARS equations 16 and 17: how much of a secret mask a random guess has."""

from collections.abc import Sequence

import torch
from scipy.stats import binom, norm

from fedpriv.rng import generator
from fedpriv.simulations.reproduce.cells import Cell
from fedpriv.simulations.reproduce.experiment import Finding
from fedpriv.tables import Row

PAIRS, PART = 200_000, 20_000
SIZES, RATE = (16, 64, 256), 0.75
PAPER = 2.449e-16  # its bound for 256 coordinates
SURE = 4.0  # standard errors between what is counted and what eq. 16 says


def guesses(cell: Cell) -> list[Row]:
    """How many pairs of drawn masks agree in three quarters, and what both equations say."""
    draw = generator(cell.seed, "masks")
    return [counted(size, draw) for size in SIZES]


def counted(size: int, draw: torch.Generator) -> Row:
    hits, total = 0, 0
    for _ in range(PAIRS // PART):
        a, b = torch.randint(2, (2, PART, size), generator=draw, dtype=torch.uint8)
        same = (a == b).sum(1)
        hits += int((same >= RATE * size).sum())
        total += int(same.sum())
    root = size**0.5
    return {
        "coordinates": size,
        "n": PAIRS,
        "overlap": total / (PAIRS * size),
        "counted": hits / PAIRS,
        "eq-16": float(binom.sf(RATE * size - 1, size, 0.5)),
        "eq-17": float(norm.sf((2 * RATE - 1) * root) - norm.sf(root)),
    }


def unlikely(rows: Sequence[Row]) -> Finding:
    """Counts agree with eq. 16, which falls with the size to the paper's figure."""
    parts, agrees = [], []
    for size in SIZES:
        own = [row for row in rows if int(row["coordinates"]) == size]
        seen = sum(float(row["counted"]) for row in own) / len(own)
        told = float(own[0]["eq-16"])
        error = (max(told * (1 - told), 1e-12) / (PAIRS * len(own))) ** 0.5
        agrees.append(abs(seen - told) <= SURE * error)
        parts.append(
            f"{size} coordinates: {seen:.2g} counted, {told:.2g} by eq. 16, "
            f"{float(own[0]['eq-17']):.2g} by eq. 17"
        )
    last = next(float(row["eq-16"]) for row in rows if int(row["coordinates"]) == SIZES[-1])
    holds = all(agrees) and last <= PAPER
    result = f"an overlap of {RATE:.0%}: {'; '.join(parts)} (paper {PAPER:.3g})"
    return Finding(
        "reproduced" if holds else "refuted", result, "blind: guesses; who reads the mask need not"
    )
