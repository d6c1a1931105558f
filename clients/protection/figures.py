"""What `evaluate` says of a client's own samples: bounded for each sample, noisy and rounded.

Exact losses of chosen models give back a sample: with 784 pixels, 794 questions were enough. So one
sample counts for a bounded loss, and noise hides it. There are two ways to add that noise:

    coarse_figures    in no account. It makes an attack slow, and promises nothing.
    private_figures   the Gaussian mechanism, for the account of an ε.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedpriv.rng import Draws
from fedpriv.training import outputs

CEILING = 5.0  # of one sample's loss; a guess among 100 classes has 4.6
DIGITS, PRIVATE_DIGITS = 2, 4
REACH = math.sqrt(3) / 2  # how far one sample moves the sums of `private_figures`
STEP = 2.0**-32  # what the sums are multiples of: whole numbers add up without rounding


def each_sample(model: nn.Module, x: Tensor, y: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    """For each sample its loss, between 0 and `CEILING` whatever the model is, and if it is right.

    Both (N,), in double precision.
    """
    logits = outputs(model, x, batch=batch)
    parts = zip(logits.split(batch), y.to(logits.device).split(batch), strict=True)
    pairs = [(cross_entropy(z, t, reduction="none"), z.argmax(dim=1) == t) for z, t in parts]
    losses, right = (torch.cat(column).cpu().double() for column in zip(*pairs, strict=True))
    return torch.nan_to_num(losses, nan=CEILING).clamp(0, CEILING), right


def coarse_figures(
    model: nn.Module, x: Tensor, y: Tensor, noise: float, draw: Draws
) -> tuple[float, float]:
    """Loss and accuracy on samples, of which nobody can read a single one exactly.

    One sample moves the accuracy by at most 1 / N and the loss by at most `CEILING` / N. The noise
    has `noise` times that as standard deviation.
    """
    losses, right = each_sample(model, x, y, batch=512)
    some, more = (draw.normal((2,), torch.float64) * noise / len(x)).tolist()
    loss, accuracy = float(losses.mean()) + some * CEILING, float(right.mean()) + more
    return rounded(max(loss, 0.0)), rounded(min(max(accuracy, 0.0), 1.0))


def bounded_sums(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Three sums over samples (3,), which one sample more or less moves by at most `REACH`.

    A sample adds (loss / `CEILING` − ½, right − ½, ½). So the third is half the number of samples,
    which is as secret as they are.

    Samples pass the model one at a time. In a batch, a sample can change how the results of the
    others are rounded, and a model can be chosen that makes much of the rounding.
    """
    losses, right = each_sample(model, x, y, batch=1) if len(x) else (torch.zeros(0),) * 2
    parts = torch.stack([losses / CEILING - 0.5, right - 0.5, torch.full_like(right, 0.5)], dim=1)
    found: Tensor = (parts / STEP).round().long().sum(0).double() * STEP
    return found


def private_figures(sums: Tensor, noise: float, draw: Draws) -> tuple[float, float]:
    """Loss and accuracy from `bounded_sums`, by the Gaussian mechanism of multiplier `noise`.

    The noise on each sum has the standard deviation `noise` · `REACH`: for an account this is one
    step of DP-SGD with this multiplier and a sampling rate of 1. What is told follows from the
    noised sums alone.
    """
    loss, right, half = (sums + draw.normal((3,), torch.float64) * noise * REACH).tolist()
    count = max(2 * half, 1.0)
    loss, right = (min(max(0.5 + part / count, 0.0), 1.0) for part in (loss, right))
    return round(loss * CEILING, PRIVATE_DIGITS), round(right, PRIVATE_DIGITS)


def rounded(value: float) -> float:
    return round(value, DIGITS)
