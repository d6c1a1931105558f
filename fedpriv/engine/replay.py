"""A client's local training as a differentiable function of its data."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fedpriv.errors import BadObservation
from fedpriv.state import State

Step = Callable[[State, State], State]  # (weights, gradient) -> weights after one step


def sgd(
    lr: float, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False
) -> Step:
    """Steps of torch.optim.SGD; one call per local training, as it remembers its velocity."""
    velocity: State = {}

    def step(weights: State, gradient: State) -> State:
        moved = {}
        for key, w in weights.items():
            g = gradient[key] + weight_decay * w
            velocity[key] = v = momentum * velocity[key] + g if key in velocity else g
            moved[key] = w - lr * (g + momentum * v if nesterov else v)
        return moved

    return step


def adam(
    lr: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> Step:
    """Steps of torch.optim.Adam, or of AdamW when the weight decay is decoupled."""
    first: State = {}
    second: State = {}
    count = 0

    def step(weights: State, gradient: State) -> State:
        nonlocal count
        count += 1
        moved = {}
        for key, w in weights.items():
            g = gradient[key] if decoupled else gradient[key] + weight_decay * w
            start = w * (1 - lr * weight_decay) if decoupled else w
            first[key] = betas[0] * first.get(key, 0) + (1 - betas[0]) * g
            second[key] = betas[1] * second.get(key, 0) + (1 - betas[1]) * g.square()
            mean = first[key] / (1 - betas[0] ** count)
            spread = (second[key] / (1 - betas[1] ** count) + eps**2).sqrt()  # smooth at g = 0
            moved[key] = start - lr * mean / spread
        return moved

    return step


def step_rule(
    optimiser: str, lr: float, momentum: float, weight_decay: float, nesterov: bool
) -> Step:
    """The step of an optimiser by the name that an observation gives."""
    if optimiser == "sgd":
        return sgd(lr, momentum, weight_decay, nesterov)
    if optimiser in ("adam", "adamw"):
        return adam(lr, weight_decay, decoupled=optimiser == "adamw")
    raise BadObservation(
        f"the optimiser '{optimiser}' cannot be replayed. Choose from: sgd, adam, adamw; or attack "
        "the mean gradient."
    )


def batches(slots: int, batch_size: int, steps: int) -> Iterator[Tensor]:
    """The slots of each local step: in their own order, over and over, short at the end of a pass.

    A server does not know the order of a client's samples, and need not: the slots are its
    unknowns.
    """
    starts = list(range(0, slots, batch_size))
    for step in range(steps):
        start = starts[step % len(starts)]
        yield torch.arange(start, min(start + batch_size, slots))


def replayed(
    weights: State,
    gradient_at: Callable[[State, Tensor], State],
    step: Step,
    order: Iterator[Tensor],
) -> State:
    """The weights after local training; `gradient_at(weights, slots)` is one step's gradient."""
    for slots in order:
        weights = step(weights, gradient_at(weights, slots))
    return weights
