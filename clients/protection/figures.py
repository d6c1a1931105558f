"""What `evaluate` says of a client's own samples: bounded for each sample, noisy and rounded.

Exact losses of chosen models give back a sample: with 784 pixels, 794 questions were enough. Here
one sample moves the accuracy by at most 1 / N and the loss by at most `CEILING` / N, and noise of
`noise` times that hides it. The noise is in no account: under an ε, `evaluate` is refused.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedpriv.rng import Draws
from fedpriv.training import outputs

CEILING = 5.0  # of one sample's loss; a guess among 100 classes has 4.6
DIGITS = 2


def coarse_figures(
    model: nn.Module, x: Tensor, y: Tensor, noise: float, draw: Draws
) -> tuple[float, float]:
    """Loss and accuracy on samples, of which nobody can read a single one exactly."""
    logits = outputs(model, x)
    losses = cross_entropy(logits, y.to(logits.device), reduction="none")
    losses = torch.nan_to_num(losses.double(), nan=CEILING).clamp(0, CEILING)
    right = (logits.argmax(dim=1) == y.to(logits.device)).double()
    some, more = (draw.normal((2,), torch.float64) * noise / len(x)).tolist()
    loss, accuracy = float(losses.mean()) + some * CEILING, float(right.mean()) + more
    return rounded(max(loss, 0.0)), rounded(min(max(accuracy, 0.0), 1.0))


def rounded(value: float) -> float:
    return round(value, DIGITS)
