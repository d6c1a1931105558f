"""S_acc: how differently an untrained network reacts to different images of a batch."""

from typing import Literal

import torch
from torch import Tensor, nn

EPSILON = 1e-5  # ATS eq. 10


def jacobian(model: nn.Module, x: Tensor) -> Tensor:
    """(N, D): the slope of the sum of all outputs at each sample (ATS eq. 8), in eval mode."""
    training = model.training
    model.eval()
    try:
        x = x.detach().clone().requires_grad_()
        (slopes,) = torch.autograd.grad(model(x).sum(), x)
    finally:
        model.train(training)
    return slopes.flatten(1)


def correlation(j: Tensor) -> Tensor:
    """Σ_J (ATS eq. 9), (N, N). A sample without slope has correlation 0 with all, also itself."""
    centred = j.double() - j.double().mean(1, keepdim=True)
    rows = centred / centred.norm(dim=1, keepdim=True).clamp_min(1e-30)
    found: Tensor = rows @ rows.T
    return found


def correlation_score(j: Tensor, reduction: Literal["mean", "sum"] = "mean") -> Tensor:
    """S_acc of one batch's Jacobian; higher is better, and −1 (mean) the most there is.

    ATS eq. 10 lacks the minus sign without which its thresholds mean nothing; the released code
    has it. The paper's −85, −80, −12 and −10 belong to "sum", without the 1/N of eq. 10.
    """
    values = torch.linalg.eigvalsh(correlation(j)) + EPSILON
    terms = values.log() + 1 / values
    found: Tensor = -(terms.mean() if reduction == "mean" else terms.sum())
    return found


def accuracy_score(
    model: nn.Module, x: Tensor, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """S_acc of one batch of transformed, normalised images (N, C, H, W) (ATS eq. 8-10)."""
    return correlation_score(jacobian(model, x), reduction)
