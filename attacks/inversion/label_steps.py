"""Labels of several local steps: guesses are replayed through the last layer's training.

Each step moves the last layer, so that the next step's gradient depends on the labels before it.
The replay needs no samples: it takes one feature vector for all of them, which is read from the
update itself. Where that vector is long, one step turns the prediction round, and the biases show
little but the last label. Then the rows of the weights are looked at: those of absent classes are
multiples of the mean features.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fedpriv.attacks.analytic.head import head_of
from fedpriv.engine.replay import batches
from fedpriv.evidence.victims import Victims
from fedpriv.rng import generator

_STARTS, _MANY = 8, 8  # orders that the search starts from; fewer if there are many slots
_SWEEPS = 12
_TRIED = 2048  # changes that one sweep tries at the most; pairs of 400 slots would be 80,000
_TURNS = 1.0  # a step that moves the logits by more turns predictions round


@dataclass(frozen=True, eq=False)
class Trained:
    """The last layer of one client: logits z (C,), ‖φ‖² + 1, and how it was trained."""

    logits: Tensor
    size: float
    lr: float
    momentum: float
    nesterov: bool
    order: tuple[tuple[int, ...], ...]  # the slots of each step

    def moved(self, labels: Tensor) -> Tensor:
        """How the biases change, (R, C), for R guesses of the slots' labels (R, slots)."""
        classes = self.logits.shape[0]
        targets = one_hot(labels, classes).to(self.logits.dtype)
        change = self.logits.new_zeros(len(labels), classes)
        velocity = torch.zeros_like(change)
        for slots in self.order:
            chances = (self.logits + self.size * change).softmax(1)
            gradient = chances - targets[:, list(slots)].mean(1)
            velocity = self.momentum * velocity + gradient
            step = gradient + self.momentum * velocity if self.nesterov else velocity
            change = change - self.lr * step
        return change


def refined(error: Callable[[Tensor], Tensor], start: Tensor, classes: int) -> tuple[Tensor, float]:
    """The labels (slots,) near `start` with the least error, exchanging two of them at a time.

    With `classes` above 0 they may also change, one at a time, to any class. Where there are more
    changes than one sweep tries, each sweep draws its own.
    """
    best, least = start, float(error(start[None])[0])
    slots, stream = len(start), generator(0, "changes")
    place = torch.arange(slots).repeat_interleave(classes)
    label = torch.arange(classes, device=start.device).repeat(slots)
    pairs = torch.triu_indices(slots, slots, 1)
    for _ in range(_SWEEPS):
        chosen = some(len(place), stream)
        tried = best.repeat(len(chosen), 1)
        tried[torch.arange(len(chosen)), place[chosen]] = label[chosen]
        one, other = pairs[:, some(pairs.shape[1], stream)]
        swapped = best.repeat(len(one), 1)
        rows = torch.arange(len(one))
        swapped[rows, one], swapped[rows, other] = best[other], best[one]
        tried = torch.cat([tried, swapped])
        if not len(tried):
            break
        errors = torch.cat([error(part) for part in tried.split(4096)])
        value, at = errors.min(0)
        if float(value) >= least * (1 - 1e-6):
            break
        best, least = tried[at], float(value)
    return best, least


def some(count: int, stream: torch.Generator) -> Tensor:
    """The numbers below `count`, or as many of them as one sweep tries."""
    if count <= _TRIED:
        return torch.arange(count)
    return torch.randperm(count, generator=stream)[:_TRIED]


def present(weight: Tensor, bias: Tensor, features: Tensor, count: int) -> Tensor:
    """The `count` classes that the update (C, F), (C,) shows most clearly, in ascending order.

    A class that no sample has gets a multiple of the mean features. What is left of its row, and a
    bias that rose, are the marks of a class that was there.
    """
    left = (weight - bias.unsqueeze(1) * features).norm(dim=1)
    marks = left + bias.clamp_min(0) * features.norm()
    order = marks.argsort(descending=True)
    found: Tensor = order[torch.arange(count) % len(order)].sort().values
    return found


def trained_head(victims: Victims, row: int) -> Trained:
    """What the replay of one victim's last layer needs."""
    facts, head = victims.facts, head_of(victims)
    prefix = f"{head.path}." if head.path else ""
    own, own_bias = (
        victims.weights[f"{prefix}{name}"]
        if victims.shared
        else victims.weights[f"{prefix}{name}"][row]
        for name in ("weight", "bias")
    )
    moved, bias = victims.delta[f"{prefix}weight"][row], victims.delta[f"{prefix}bias"][row]
    features = bias @ moved / bias.square().sum().clamp_min(1e-30)
    order = batches(victims.slots, facts.batch_size, facts.local_steps)
    return Trained(
        logits=own @ features + own_bias,
        size=float(features.square().sum()) + 1,
        lr=facts.lr,
        momentum=facts.momentum,
        nesterov=facts.nesterov,
        order=tuple(tuple(slots.tolist()) for slots in order),
    )


def over_steps(victims: Victims, read: Tensor, seed: int = 0) -> Tensor:
    """Labels (V, slots) in the order of the steps, from those that the mean gradient shows.

    Only for plain SGD and its momentum; others keep the labels that were read.
    """
    head = head_of(victims)
    if head.bias is None or victims.facts.optimiser != "sgd":
        return read
    prefix = f"{head.path}." if head.path else ""
    found = []
    for row, start in enumerate(read):
        classes = victims.facts.classes
        one = trained_head(victims, row)
        weight, bias = (victims.delta[f"{prefix}{name}"][row] for name in ("weight", "bias"))
        if one.lr * one.size > _TURNS:
            features = bias @ weight / bias.square().sum().clamp_min(1e-30)
            start, classes = present(weight, bias, features, len(start)), 0

        def error(labels: Tensor, one: Trained = one, seen: Tensor = bias) -> Tensor:
            return (one.moved(labels) - seen).square().sum(1)

        stream = generator(seed, "order", victims.names[row])
        more = (_STARTS if len(start) <= _MANY else 2) - 1
        orders = [torch.randperm(len(start), generator=stream) for _ in range(more)]
        starts = [start, *(start[order] for order in orders)]
        tries = [refined(error, labels, classes) for labels in starts]
        found.append(min(tries, key=lambda pair: pair[1])[0])
    return torch.stack(found)
