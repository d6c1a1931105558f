"""The features of each sample of a batch, from the gradient of the last layer alone.

∇W = Δᵀ Φ with Φ (B, F) the features and Δ (B, C) what the loss sends back to the logits. The rows
of ∇W span the same space as the features while a batch has fewer samples than classes, so that
Φ = M S with S a basis of that space and M (B, B) unknown. Δ follows from Φ, the layer's own weights
and the labels. That gives more equations than unknowns, and M is solved for.
"""

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.func import jacfwd
from torch.nn.functional import one_hot

from fedpriv.rng import generator

_ALIKE = 1e-6  # pull of features to their mean: it decides only what rounding has hidden
_SOLVED = 3e-7  # relative error of an exact solution: float32 rounds by about 1e-7
_STARTS, _TRIED, _HOPELESS = 12, 4, 0.02  # after four starts as bad as this, noise is in the way


def separated(
    weight: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, labels: Tensor
) -> tuple[Tensor, float]:
    """Features (B, F) that explain ∇W (C, F) and ∇b (C,) of a mean cross-entropy, and their error.

    `own` and `own_bias` are the layer itself, `labels` (B,) the classes of the samples. Samples of
    one class that can hardly be told apart get nearly the same features. The error is relative to
    the gradient: far above float32's rounding, features or labels are wrong.
    """
    device, batch, classes = weight.device, len(labels), len(bias)
    weight, bias, own, own_bias = (
        value.detach().cpu().double() for value in (weight, bias, own, own_bias)
    )
    basis = torch.linalg.svd(weight, full_matrices=False).Vh[:batch]
    seen, logits_of = weight @ basis.T, own @ basis.T
    targets = one_hot(labels.cpu(), classes).double()
    scale, bias_scale = seen.norm(), bias.norm()
    mean = bias @ weight / bias.square().sum()

    def residual(mixing: Tensor) -> Tensor:
        m = mixing.view(batch, -1)
        sent = ((m @ logits_of.T + own_bias).softmax(1) - targets) / batch
        apart = (m - m.mean(0)) / mean.norm()
        return torch.cat(
            [
                ((sent.T @ m - seen) / scale).flatten(),
                (sent.sum(0) - bias) / bias_scale,
                _ALIKE * apart.flatten(),
            ]
        )

    slope, stream = jacfwd(residual), generator(0, "separation")
    chances = (own @ mean + own_bias).softmax(0)
    best, least = mean.expand(batch, -1), np.inf
    for tried in range(_STARTS):
        if least < _SOLVED or (tried == _TRIED and least > _HOPELESS):
            break
        drawn = 0.05 * torch.rand(targets.shape, generator=stream, dtype=torch.double)
        sent = (chances + drawn - targets).T / batch
        alike = (basis @ mean).expand(batch, -1)
        start = alike + torch.linalg.pinv(sent, rtol=1e-2) @ (seen - sent @ alike)
        found = scipy.optimize.least_squares(
            lambda m: residual(torch.from_numpy(m)).numpy(),
            start.flatten().numpy(),
            jac=lambda m: slope(torch.from_numpy(m)).numpy(),
            method="lm",
            xtol=1e-10,
            ftol=1e-10,
            gtol=1e-14,
            max_nfev=50 * batch,
        )
        error = float(np.linalg.norm(found.fun[: classes * (len(basis) + 1)]))
        if error < least:
            best, least = torch.from_numpy(found.x).view(batch, -1) @ basis, error
    return best.float().to(device), least
