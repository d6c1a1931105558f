"""SPN theorem 2.2 on drawn systems: one row, several rows, a convolution as a matrix (fig. 8)."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from fedpriv.attacks.analytic.linear import system_bound
from fedpriv.rng import generator
from fedpriv.simulations.reproduce.cells import Cell
from fedpriv.simulations.reproduce.experiment import Finding
from fedpriv.tables import Row

SYSTEMS, SIDE, KERNEL = 400, 6, 3
PIXELS = SIDE * SIDE
SEEN = 0.5  # relative error below which a picture is recovered


System = tuple[Tensor, Tensor]  # B, and noise of the same form and mean size


def rows_of_layer(draw: torch.Generator, count: int) -> System:
    """B of some rows of a linear layer: each pixel is solved from one of them."""
    rows, noise = torch.randn(2, count, generator=draw).double()
    chosen = torch.randint(count, (PIXELS,), generator=draw)
    return rows[chosen].diag(), (noise * rows.abs().mean())[chosen].diag()


def convolution(draw: torch.Generator) -> System:
    """B of a convolution: what is sent back to its maps, stacked by shift of the kernel.

    Weight (o, u, v) has the gradient Σ_p δ_o(p) x(p + (u, v)), a row of B times x.
    """
    maps = PIXELS // KERNEL**2
    sent, noise = torch.randn(2, maps, 1, SIDE, SIDE, generator=draw).double()
    return conv_matrix(sent), conv_matrix(noise)


def conv_matrix(sent: Tensor) -> Tensor:
    """(maps · k², pixels): the weight gradient of a same-sized convolution as a matrix."""
    pictures = torch.eye(PIXELS, dtype=sent.dtype).view(PIXELS, 1, SIDE, SIDE)
    return weight_gradient(pictures, sent).flatten(1).T


def weight_gradient(x: Tensor, sent: Tensor) -> Tensor:
    """(N, maps, k, k): the gradient of a convolution's weights for each picture (N, 1, H, W)."""
    whole = conv2d(x, sent, padding=SIDE)
    first = SIDE - KERNEL // 2
    found: Tensor = whole[..., first : first + KERNEL, first : first + KERNEL]
    return found


KINDS: dict[str, Callable[[torch.Generator], System]] = {
    "one row": partial(rows_of_layer, count=1),
    "five rows": partial(rows_of_layer, count=5),
    "convolution": convolution,
}


def systems(cell: Cell) -> list[Row]:
    """For each kind: how often the bound of eq. 3 is broken, and what happens beyond (2)."""
    return [measured(name, make, cell.seed) for name, make in KINDS.items()]


def measured(name: str, make: Callable[[torch.Generator], System], seed: int) -> Row:
    draw = generator(seed, "systems", name)
    errors, bounds, exact = [], [], []
    for _ in range(SYSTEMS):
        b, noise = make(draw)
        x = torch.rand(PIXELS, generator=draw).double()
        w = b @ x
        scale = 10 ** (4 * torch.rand(2, generator=draw).double() - 3)
        e_b = scale[0] * noise
        e_w = scale[1] * w.abs().mean() * torch.randn(PIXELS, generator=draw).double()
        found = torch.linalg.lstsq(b + e_b, (w + e_w)[:, None]).solution[:, 0]
        errors.append(float((found - x).norm() / x.norm()))
        bounds.append(float(system_bound(b, w, e_b, e_w)))
        exact.append(float((torch.linalg.solve(b, w) - x).norm() / x.norm()))
    within = [(e, m) for e, m in zip(errors, bounds, strict=True) if m < float("inf")]
    beyond = [e for e, m in zip(errors, bounds, strict=True) if m == float("inf")]
    return {
        "kind": name,
        "n": len(within),
        "broken": sum(e > m * (1 + 1e-9) for e, m in within),
        "exact-error": sorted(exact)[len(exact) // 2],
        "beyond": len(beyond),
        "recovered-beyond": sum(e < SEEN for e in beyond),
    }


def obeyed(rows: Sequence[Row]) -> Finding:
    """Exact without noise, and never beyond the bound with it."""
    total, broken = (sum(int(row[key]) for row in rows) for key in ("n", "broken"))
    worst = max(float(row["exact-error"]) for row in rows)
    kinds = ", ".join(dict.fromkeys(str(row["kind"]) for row in rows))
    result = f"{broken} of {total} systems break eq. 3 ({kinds}); without noise the error is "
    result += f"{worst:.0e}"
    return Finding("reproduced" if not broken and worst < 1e-6 else "refuted", result)


def guaranteed(rows: Sequence[Row]) -> Finding:
    """That recovery must fail where condition (2) does not hold."""
    beyond, seen = (sum(int(row[key]) for row in rows) for key in ("beyond", "recovered-beyond"))
    result = f"{seen} of {beyond} systems beyond (2) are solved to a relative error below {SEEN}"
    return Finding("refuted" if seen else "undecided", result, "least squares")
