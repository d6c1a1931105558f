"""PSNR up to a move: the best over translations, so that a guess in the wrong place counts too.

ATS policies move pictures. Plain PSNR then calls a sharp guess a failure because it is off by some
pixels; a person would recognise it all the same.
"""

import torch
from torch import Tensor

from fedpriv.errors import BadInput
from fedpriv.metrics.images import CEILING

LEAST = 0.5  # part of the picture that guess and truth must have in common


def shifted_psnr(guess: Tensor, truth: Tensor) -> Tensor:
    """The highest PSNR of the parts that overlap, (N,), over all moves by whole pixels.

    At least half of the picture must overlap. A guess is free to choose among many moves, so that
    it has some decibels more than by plain PSNR even where it shows nothing: compare it with the
    blind guess of the same metric.
    """
    if guess.shape != truth.shape or guess.dim() != 4:
        raise BadInput(
            f"Pictures (N, C, H, W) of one shape can be moved, got {tuple(guess.shape)} and "
            f"{tuple(truth.shape)}."
        )
    height, width = guess.shape[2:]
    a, b = guess.detach().double(), truth.detach().double()
    ones = torch.ones_like(b[:1, :1])
    # Σ (a − b)² over the overlap of every move = Σ a² − 2 Σ ab + Σ b², each a correlation.
    errors = (
        _overlaps(a.square().sum(1), ones[:, 0])
        + _overlaps(ones[:, 0], b.square().sum(1))
        - 2 * _overlaps(a, b).sum(1)
    )
    common = _overlaps(ones[:, 0], ones[:, 0]).round()
    allowed = common >= LEAST * height * width
    mean = (errors / (common.clamp_min(1) * a.shape[1])).where(allowed, torch.inf)
    return -10 * mean.flatten(1).amin(1).clamp_min(10 ** (-CEILING / 10)).log10()


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Σ a(p + move) b(p) over all pixels p that both have, for every move, (…, 2H, 2W)."""
    size = [2 * side for side in a.shape[-2:]]
    found: Tensor = torch.fft.irfft2(
        torch.fft.rfft2(a, s=size) * torch.conj_physical(torch.fft.rfft2(b, s=size)), s=size
    )
    return found
