"""The protocol that notes show: what the server of an app knows, for it wrote the app's code.

What differs from client to client by their data is no fact of the protocol, and is left unknown
unless the server can compute it from what clients report.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

import torch
from torch import Tensor

from fedpriv.clients.noticing import Eyes, Notes

CROSS_ENTROPY = {"cross-entropy", "nll"}  # nll of log-probabilities is cross-entropy of them
TWO_CLASSES = {"bce", "bce-with-logits"}


def loss_of(notes: Notes) -> str | None:
    """The loss in the words of an observation; that of two classes is cross-entropy of two."""
    if len(notes.losses) != 1:
        return " and ".join(sorted(notes.losses)) or None
    (name,) = notes.losses
    if name in CROSS_ENTROPY or (name in TWO_CLASSES and notes.outputs == {1}):
        return "cross-entropy"
    return name


def classes_of(notes: Notes) -> int | None:
    if len(notes.outputs) != 1:
        return None
    (width,) = notes.outputs
    return 2 if notes.losses <= TWO_CLASSES and width == 1 else width


def batch_of(notes: Notes) -> int | None:
    """The batch size: what most steps take; the mean where every step takes another number.

    The last step of a pass may be smaller, and Poisson sampling draws a new number each time.
    """
    sizes = notes.sizes
    if not sizes:
        return None
    usual = max(set(sizes), key=lambda size: (sizes.count(size), size))
    most = max(sizes)
    if len(sizes) <= 2 or 2 * sizes.count(most) >= len(sizes):
        return most
    return usual if 2 * sizes.count(usual) >= len(sizes) else round(sum(sizes) / len(sizes))


def scale_of(notes: Notes, eyes: Eyes) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """mean and std that clients normalise by: as their transformation says, else by the values.

    Pictures that lie in [0, 1] are not normalised. Those in [−1, 1] that are not were moved by a
    half and stretched to twice their size.
    """
    if len(eyes.normalised) == 1:
        return next(iter(eyes.normalised))
    if eyes.normalised or not notes.x:
        return None
    if notes.x[0].dim() != 4:
        return (), ()
    x = torch.cat(notes.x)
    if (found := scale_of_bytes(x)) is not None:
        return found
    low, high, channels = float(x.min()), float(x.max()), x.shape[1]
    if low >= 0 and high <= 1:
        return (0.0,) * channels, (1.0,) * channels
    if low >= -1 and high <= 1:
        return (0.5,) * channels, (0.5,) * channels
    return None


def scale_of_bytes(x: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """mean and std of pictures (N, C, H, W) whose values are those of bytes, from 0 to 255.

    (k/255 − mean) / std for whole numbers k: the least gap of values is 1/(255·std), the least
    value −mean/std. None unless every channel has values of k = 0 and of k = 255.
    """
    mean, std = [], []
    for channel in x.transpose(0, 1).flatten(1).double():
        values = channel.unique()
        gaps = values.diff()
        gap = gaps[gaps > 1e-5 * float(values.max() - values.min() + 1e-12)]
        if not len(gap):
            return None
        deviation = float((values.max() - values.min()) / 255)
        places = (values - values.min()) / deviation
        if float((places - places.round()).abs().max()) > 0.02 or float(gap.min()) < deviation / 2:
            return None
        if len(values) < 32:  # a picture of few values may lie anywhere
            return None
        std.append(round(1 / (255 * deviation), 5))
        mean.append(round(-float(values.min()) / (255 * deviation), 5) + 0.0)
    return tuple(mean), tuple(std)


def steps_of(notes: Notes, all_notes: Sequence[Notes], examples: int | None) -> int | None:
    """Local steps, where every client makes as many or the reported examples give them."""
    if len({one.steps for one in all_notes}) == 1:
        return notes.steps
    batch = batch_of(notes)
    if batch is None or examples is None or notes.steps % max(1, ceil(examples / batch)):
        return None
    return notes.steps


def rate_of(notes: Notes, all_notes: Sequence[Notes]) -> float | None:
    """The learning rate, the mean of a schedule's; times what stretches every client's gradients.

    Gradients that are added up or a loss that is a sum stretch all of them alike, and the server
    knows it from the app's code. Clipping differs from client to client, and stays unknown.
    """
    if not notes.rates:
        return None
    rate = sum(notes.rates) / len(notes.rates)
    factors = [one.factor for one in all_notes]
    alike = max(factors) - min(factors) < 0.02 * max(factors)
    return rate * notes.factor if alike and notes.optimiser == "sgd" else rate


def facts_told(
    notes: Notes, all_notes: Sequence[Notes], examples: int | None, eyes: Eyes
) -> dict[str, Any]:
    """What the server of this app knows of one client's training; what it does not is left out."""
    options, samples = notes.options, distinct(notes)
    scale = scale_of(notes, eyes)
    found: dict[str, Any] = {
        "optimiser": notes.optimiser,
        "momentum": float(options.get("momentum", 0.0)),
        "nesterov": bool(options.get("nesterov", False)),
        "weight_decay": float(options.get("weight_decay", 0.0)),
        "lr": rate_of(notes, all_notes),
        "local_steps": steps_of(notes, all_notes, examples),
        "batch_size": batch_of(notes),
        "loss": loss_of(notes),
        "classes": classes_of(notes),
        "input_shape": tuple(notes.x[0].shape[1:]) if notes.x else None,
        "mode": "train" if True in notes.training else "eval",
        "dropout": notes.dropout,
        "augmentation": tuple(sorted(eyes.random)),
        "mean": None if scale is None else scale[0],
        "std": None if scale is None else scale[1],
        "num_examples": examples if examples_fit(notes, examples) else samples or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def distinct(notes: Notes) -> int:
    """How many different samples were trained on."""
    return len({sample.numpy().tobytes() for x in notes.x for sample in x})


def examples_fit(notes: Notes, examples: int | None) -> bool:
    """Whether the reported number of examples can be that of the samples trained on."""
    if examples is None or not notes.x:
        return False
    seen = sum(notes.sizes)
    return examples >= max(notes.sizes) and (seen % examples == 0 or examples >= seen)
