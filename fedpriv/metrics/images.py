"""Pixel distances: relative error, MSE, PSNR, SSIM (SPN sect. 4.1, ATS eq. 2, ARS sect. 5.1.3).

Pictures are (N, C, H, W) in [0, 1], as `Dataset.denormalised` gives them, which clamps; nothing is
clamped here. MSE and its relative kind take tables and signals as well. All give (N,).
"""

import torch
from torch import Tensor

from fedpriv.errors import BadInput

CEILING = 100.0  # decibels that a perfect copy is said to have, so that means stay finite


def _alike(guess: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Both as (N, D) in double precision."""
    if guess.shape != truth.shape:
        raise BadInput(
            f"A guess of shape {tuple(guess.shape)} cannot be compared with a truth of shape "
            f"{tuple(truth.shape)}; match the samples first (fedpriv.metrics.matching)."
        )
    return guess.detach().flatten(1).double(), truth.detach().flatten(1).double()


def mse(guess: Tensor, truth: Tensor) -> Tensor:
    """Mean squared difference of each sample."""
    a, b = _alike(guess, truth)
    return (a - b).square().mean(dim=1)


def relative_error(guess: Tensor, truth: Tensor) -> Tensor:
    """‖x* − x‖ / ‖x‖ of each sample, which SPN sect. 4.1 writes rMSE; a black picture has 1."""
    a, b = _alike(guess, truth)
    found: Tensor = (a - b).norm(dim=1) / b.norm(dim=1).clamp_min(1e-12)
    return found


def psnr(guess: Tensor, truth: Tensor) -> Tensor:
    """−10·log₁₀ MSE in decibels for pictures in [0, 1]; at most 100, which a perfect copy has."""
    return -10 * mse(guess, truth).clamp_min(10 ** (-CEILING / 10)).log10()


def ssim(guess: Tensor, truth: Tensor) -> Tensor:
    """Structural similarity with scikit-image's 7×7 window, smaller for pictures below 7 pixels."""
    from skimage.metrics import structural_similarity

    _alike(guess, truth)
    if guess.dim() != 4 or min(guess.shape[2:]) < 3:
        raise BadInput(
            f"SSIM compares pictures (N, C, H, W) of at least 3×3 pixels, got {tuple(guess.shape)}."
        )
    side = min(7, *guess.shape[2:])
    window = side if side % 2 else side - 1
    pairs = zip(guess.detach().cpu().double(), truth.detach().cpu().double(), strict=True)
    values = [
        structural_similarity(a.numpy(), b.numpy(), win_size=window, channel_axis=0, data_range=1.0)
        for a, b in pairs
    ]
    return torch.tensor(values, dtype=torch.double, device=guess.device)
