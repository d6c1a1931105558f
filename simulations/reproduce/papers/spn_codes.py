"""SPN propositions 5.1 to 5.3 on drawn heads: what the polarization loss says of binary codes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fedpriv.clients.plugins.polarization import polarization_loss
from fedpriv.rng import generator
from fedpriv.simulations.reproduce.cells import Cell
from fedpriv.simulations.reproduce.experiment import Finding
from fedpriv.tables import Row

DRAWN, CLASSES, BITS = 1000, 5, 32
SLACK = 1e-9  # of double precision
BOUNDS = {"20": "5.1", "21": "5.2", "22": "5.3"}  # equation and proposition


def systems(cell: Cell) -> list[Row]:
    """How often each inequality is broken, and how often the loss orders two heads wrongly."""
    draw = generator(cell.seed, "codes")
    found = [measured(*head(draw)) for _ in range(DRAWN)]
    broken = {
        f"broken-{name}": sum(one[f"left-{name}"] > one[f"right-{name}"] + SLACK for one in found)
        for name in BOUNDS
    }
    pairs = list(zip(found[::2], found[1::2], strict=True))
    reversed_pairs = sum(
        (a["loss"] - b["loss"]) * (a["left-22"] - b["left-22"]) < 0 for a, b in pairs
    )
    return [{"n": DRAWN, **broken, "pairs": len(pairs), "reversed": reversed_pairs}]


def head(draw: torch.Generator) -> tuple[list[Tensor], Tensor]:
    """Outputs of a secret head for the samples of each class, and the classes' codes.

    Some heads agree with the codes and some do not, and their outputs are of any size.
    """
    codes = torch.randint(2, (CLASSES, BITS), generator=draw).double() * 2 - 1
    size = 10 ** (4 * float(torch.rand((), generator=draw)) - 2)
    pull = float(torch.rand((), generator=draw)) * 2
    counts = torch.randint(1, 12, (CLASSES,), generator=draw)
    outputs = [
        size * (pull * code + torch.randn(int(count), BITS, generator=draw).double())
        for code, count in zip(codes, counts, strict=True)
    ]
    return outputs, codes


def measured(outputs: Sequence[Tensor], codes: Tensor) -> dict[str, float]:
    """Both sides of equations 20 to 22; of 20, the class that comes nearest to breaking it."""
    classes = len(outputs)
    losses = [
        float(polarization_loss(v, t.expand_as(v)).mean())
        for v, t in zip(outputs, codes, strict=True)
    ]
    bits = [torch.where(v >= 0, 1.0, -1.0).double() for v in outputs]
    within = [apart(b, b) for b in bits]
    others = [(x, y) for x in range(classes) for y in range(classes) if x != y]
    between = sum(apart(bits[x], bits[y]) for x, y in others)
    targets = sum(apart(codes[x][None], codes[y][None]) for x, y in others)
    nearest = min(range(classes), key=lambda x: 2 * losses[x] - within[x])
    return {
        "left-20": within[nearest],
        "right-20": 2 * losses[nearest],
        "left-21": targets - between,
        "right-21": 2 * (classes - 1) * sum(losses),
        "left-22": sum(within) - between,
        "right-22": 2 * classes * sum(losses) - targets,
        "loss": sum(losses),
    }


def apart(a: Tensor, b: Tensor) -> float:
    """The mean Hamming distance of the rows of a and those of b; (N, K) and (M, K) of ±1."""
    return float((a.shape[1] - a @ b.T).mean() / 2)


def bounded(rows: Sequence[Row]) -> Finding:
    """No head breaks one of the three inequalities."""
    total = sum(int(row["n"]) for row in rows)
    broken = {name: sum(int(row[f"broken-{name}"]) for row in rows) for name in BOUNDS}
    said = ", ".join(f"eq. {name} (prop. {BOUNDS[name]}) {count}" for name, count in broken.items())
    result = f"of {total} drawn heads these break an inequality: {said}"
    return Finding("refuted" if any(broken.values()) else "reproduced", result)


def equivalent(rows: Sequence[Row]) -> Finding:
    """That minimising the loss is the same as minimising the difference of distances."""
    pairs, wrong = (sum(int(row[key]) for row in rows) for key in ("pairs", "reversed"))
    result = (
        f"in {wrong} of {pairs} pairs of heads the one with the smaller loss has the worse codes"
    )
    return Finding("refuted" if wrong else "undecided", result)
