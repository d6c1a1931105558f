"""Hits of labels and participants, F1 and MCC.

SPN sect. 4.1, ARS tables 3 and 5, ARL table 1.
"""

import numpy as np
import scipy
import torch
from torch import Tensor

from fedpriv.errors import BadInput


def classes_of(guess: Tensor) -> Tensor:
    """Class indices from indices (N,) or from scores (N, K)."""
    return guess.argmax(dim=-1) if guess.dim() > 1 else guess


def hit(guess: Tensor, truth: Tensor) -> Tensor:
    """1 where the label is recovered, (N,)."""
    guess = classes_of(guess)
    if guess.shape != truth.shape:
        raise BadInput(f"{len(guess)} labels cannot be compared with {len(truth)}.")
    return (guess == truth).double()


def overlap(guess: Tensor, truth: Tensor) -> Tensor:
    """1 for as many samples of each class as were guessed of it, whichever they are, (N,).

    The mean over a batch is the overlap of both multisets: labels that were all found count as
    found, also where no picture says which belongs to which sample.
    """
    guess = classes_of(guess)
    hits = hit(guess, truth)  # which also checks the shapes
    for label in truth.unique():
        own = (truth == label).nonzero().flatten()
        said = int((guess == label).sum())
        exact = own[hits[own] > 0]
        rest = own[hits[own] == 0]
        hits[rest[: max(0, min(said, len(own)) - len(exact))]] = 1.0
    return hits


def likeliest(labels: Tensor, count: int) -> Tensor:
    """The `count` labels whose overlap with as many samples is largest on average.

    The samples are drawn like `labels`. One is the most frequent label; many have its shares. A
    label's next copy adds the chance that the samples have so many of it.
    """
    shares = torch.bincount(labels.flatten().long()).double().numpy() / labels.numel()
    chances = scipy.stats.binom.sf(
        np.arange(count)[None], count, shares[:, None]
    )  # (K, count), falling
    best = np.argsort(-chances.flatten(), kind="stable")[:count]
    return torch.from_numpy(np.sort(best // count))


def share_equal(guess: Tensor, truth: Tensor) -> Tensor:
    """The share of entries that are equal, (N,): categories of a row, coordinates of a mask."""
    if guess.shape != truth.shape:
        raise BadInput(f"Entries {tuple(guess.shape)} and {tuple(truth.shape)} are no pairs.")
    return (guess == truth).flatten(1).double().mean(dim=1)


def confusion(guess: Tensor, truth: Tensor, classes: int) -> Tensor:
    """How often class j is said of class i, (K, K), rows the truth."""
    guess = classes_of(guess)
    if guess.shape != truth.shape or not len(truth):
        raise BadInput(f"{len(guess)} predictions cannot be scored against {len(truth)} labels.")
    return torch.bincount(truth * classes + guess, minlength=classes**2).view(classes, classes)


def f1(guess: Tensor, truth: Tensor, classes: int = 2) -> float:
    """F1 of class 1 for two classes, else the mean over classes; 0 for a class never met."""
    table = confusion(guess, truth, classes).double()
    both = table.sum(dim=0) + table.sum(dim=1)
    each = 2 * table.diagonal() / both.clamp_min(1)
    return float(each[1] if classes == 2 else each.mean())


def mcc(guess: Tensor, truth: Tensor, classes: int = 2) -> float:
    """Matthews' correlation, for any number of classes; 0 if either side has one class only."""
    table = confusion(guess, truth, classes).double()
    said, true, total = table.sum(dim=0), table.sum(dim=1), table.sum()
    covariance = table.trace() * total - said @ true
    spread = (total**2 - said @ said) * (total**2 - true @ true)
    return float(covariance / spread.sqrt()) if spread > 0 else 0.0


def rate_equal(predictions: Tensor, fixed: int) -> float:
    """The share of an attacker's predictions equal to the fixed class r (ARS sect. 5.1.3)."""
    return float((classes_of(predictions) == fixed).double().mean())
