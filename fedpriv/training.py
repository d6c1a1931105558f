"""Fit and evaluate a plain supervised model (ARS eq. 6, ARL eq. 6, RAN eq. 2)."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedpriv.eager import skip_compiler
from fedpriv.errors import BadOption, WorkFailed
from fedpriv.progress import Progress, Told, still_wanted
from fedpriv.rng import Source, draws

Normalise = Callable[[Tensor], Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


def as_is(x: Tensor) -> Tensor:
    return x


def batches(count: int, size: int, draw: Source) -> Iterator[Tensor]:
    """Indices 0..count−1 in random order, `size` at a time; the last batch may be smaller."""
    if size < 1:
        raise BadOption(f"batch must be at least 1, got {size}.")
    yield from draws(draw).permutation(count).split(size)


@torch.no_grad()
def outputs(model: nn.Module, x: Tensor, normalise: Normalise = as_is, batch: int = 512) -> Tensor:
    """What the model says of `x` in eval mode, batch by batch; its mode is left as it was."""
    if batch < 1:
        raise BadOption(f"batch must be at least 1, got {batch}.")
    device = next((p.device for p in model.parameters()), x.device)
    training = model.training
    model.eval()
    try:
        return torch.cat([model(normalise(part.to(device))) for part in x.split(batch)])
    finally:
        model.train(training)


def evaluate(
    model: nn.Module, x: Tensor, y: Tensor, normalise: Normalise = as_is, batch: int = 512
) -> tuple[float, float]:
    """Mean cross-entropy and accuracy on samples as stored; `normalise` is a data set's."""
    if not len(x):
        raise BadOption("There is nothing to evaluate on: the set of samples is empty.")
    logits = outputs(model, x, normalise, batch)
    y = y.to(logits.device)
    correct = (logits.argmax(dim=1) == y).double().mean()
    return float(cross_entropy(logits, y)), float(correct)


def fit(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    draw: Source,
    normalise: Normalise = as_is,
    epochs: int = 1,
    batch: int = 64,
    lr: float = 1e-3,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
    loss: Loss = cross_entropy,
    progress: Progress = still_wanted,
) -> list[float]:
    """Train `model` in place and return the mean loss of each epoch.

    `y` is whatever `loss(model(x), y)` compares with: labels, or x itself for an autoencoder.
    `draw` decides the order of the samples: same generator, same weights. `progress` is asked after
    every batch whether to go on; it is told the loss of the last whole epoch.
    """
    skip_compiler()
    if len(x) != len(y) or not len(x):
        raise BadOption(f"fit needs as many targets as samples, and some: got {len(x)}, {len(y)}.")
    device = next(p.device for p in model.parameters())
    stepper = optimizer(model.parameters(), lr=lr)
    history: list[float] = []
    told, done = Told(progress), 0
    model.train()
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for indices in batches(len(x), batch, draw):
            stepper.zero_grad()
            value = loss(model(normalise(x[indices].to(device))), y[indices].to(device))
            value.backward()
            stepper.step()
            total += value.detach() * len(indices)
            done += len(indices)
            if not told(done / (epochs * len(x)), history[-1] if history else math.nan):
                return history
        history.append(float(total) / len(x))
        if not torch.isfinite(total):
            raise WorkFailed(
                f"Training diverged in epoch {epoch + 1}: the loss is {history[-1]}. "
                f"Lower the learning rate, now {lr}."
            )
    return history
