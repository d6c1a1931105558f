"""Encoders trained for a task and against a decoder (RAN eq. 2-4, alg. 1; ARL eq. 6-9)."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from fedpriv.codes.decoding import Features, perceptual_loss, together
from fedpriv.eager import skip_compiler
from fedpriv.errors import WorkFailed
from fedpriv.progress import still_wanted
from fedpriv.rng import Source
from fedpriv.training import batches

Loss = Callable[[Tensor, Tensor], Tensor]  # one batch (x, y) -> a number
# The decoder's learning rate is five times the encoder's unless told otherwise. At equal rates the
# encoder only outruns this decoder, and a fresh one still succeeds. Not in the papers.
PACE = 5


@dataclass(frozen=True)
class Rates:
    """Learning rates: of the discriminative, generative and adversarial steps (RAN alg. 1)."""

    l1: float
    l2: float
    l3: float

    @classmethod
    def of(cls, lr: float, l1: float = 0.0, l2: float = 0.0, l3: float = 0.0) -> "Rates":
        """Those that are given; of the others the game's own, from `lr`."""
        return cls(l1 or lr, l2 or PACE * lr, l3 or lr)


def several_tasks(logits: Tensor, y: Tensor, sizes: Sequence[int]) -> Tensor:
    """The mean cross-entropy of tasks with `sizes` classes; logits (N, Σ sizes), y (N, tasks)."""
    parts = logits.split(list(sizes), dim=1)
    return torch.stack([cross_entropy(part, y[:, i]) for i, part in enumerate(parts)]).mean()


def ran_objective(task: Tensor, reconstruction: Tensor, lam: float) -> Tensor:
    """O_a = λ·H − (1 − λ)·|I − D(E(I))|², as means over samples (RAN eq. 4)."""
    return lam * task - (1 - lam) * reconstruction


def arl_objective(
    task: Tensor, pixels: Tensor, perceptual: Tensor, lambda1: float, lambda2: float
) -> Tensor:
    """L_u − λ1·L_p − λ2·L_perc (ARL eq. 9)."""
    return task - lambda1 * pixels - lambda2 * perceptual


@dataclass(frozen=True)
class Stage:
    """One update on every batch: what is minimised, and by moving what."""

    loss: Loss
    stepper: torch.optim.Optimizer


def alternate(
    stages: Sequence[Stage], x: Tensor, y: Tensor, *, epochs: int, batch: int, draw: Source
) -> None:
    """All stages on each mini-batch, in order (the loop of RAN alg. 1)."""
    for epoch in range(epochs):
        for chosen in batches(len(x), batch, draw):
            for stage in stages:
                stage.stepper.zero_grad()
                value = stage.loss(x[chosen], y[chosen])
                value.backward()
                stage.stepper.step()
            if not still_wanted(epoch / epochs, math.nan):
                return
        if not torch.isfinite(value):
            raise WorkFailed(
                f"Adversarial training diverged in epoch {epoch + 1}; lower the learning rate "
                "or the weight of the reconstruction."
            )


@dataclass(frozen=True)
class Players:
    """An encoder, the classifier it serves, and the sizes of that classifier's tasks."""

    encoder: nn.Module
    classifier: nn.Module
    sizes: tuple[int, ...]

    def task(self, x: Tensor, y: Tensor) -> Tensor:
        """H(Y, C(E(I))) (RAN eq. 2, ARL eq. 6)."""
        return several_tasks(self.classifier(self.encoder(x)), y, self.sizes)

    def stepper(self, lr: float) -> torch.optim.Optimizer:
        skip_compiler()
        both = [*self.encoder.parameters(), *self.classifier.parameters()]
        return torch.optim.Adam(both, lr=lr)


def plain_stages(players: Players, lr: float, k: int = 0) -> list[Stage]:
    """The task alone, k + 1 steps a batch: RAN with λ = 1, ARL (k = 0) with λ1 = λ2 = 0."""
    return [Stage(players.task, players.stepper(lr))] * k + [
        Stage(players.task, players.stepper(lr))
    ]


def summed(guess: Tensor, x: Tensor) -> Tensor:
    """|I − I'|²: the sum over the pixels of a sample, the mean over samples (RAN eq. 3, ARL 7)."""
    return mse_loss(guess, x) * x[0].numel()


def ran_stages(
    players: Players,
    decoder: nn.Module,
    rates: Rates,
    lam: float,
    k: int = 3,
    error: Loss = summed,
    standardise: bool = True,
) -> list[Stage]:
    """k × (discriminative, generative), then adversarial (RAN alg. 1, lines 4-8).

    The algorithm as printed has equal rates and `standardise` false.
    """
    seen = even if standardise else as_it_is

    def generative(x: Tensor, y: Tensor) -> Tensor:
        return mse_loss(decoder(seen(coded(players.encoder, x))), x)

    def adversarial(x: Tensor, y: Tensor) -> Tensor:
        z = players.encoder(x)
        task = several_tasks(players.classifier(z), y, players.sizes)
        return ran_objective(task, error(decoder(seen(z)), x), lam)

    learn = Stage(players.task, players.stepper(rates.l1))
    imitate = Stage(generative, torch.optim.Adam(decoder.parameters(), lr=rates.l2))
    return [learn, imitate] * k + [Stage(adversarial, players.stepper(rates.l3))]


def arl_stages(
    players: Players,
    decoder: nn.Module,
    lr: float,
    lambda1: float,
    lambda2: float = 0.0,
    features: Features | None = None,
    decoder_loss: Loss = mse_loss,
    decoder_steps: int = 1,
    public: Iterator[Tensor] | None = None,
    error: Loss = summed,
) -> list[Stage]:
    """The decoder's turn, then the encoder's and the classifier's (ARL eq. 7-9).

    `decoder_loss(x̂, x)` is the simulated adversary's: pixels, or with GAN and perceptual terms. It
    is trained on batches of `public` samples (X2), or else on the encoder's own (X1).
    """

    def simulated(x: Tensor, y: Tensor) -> Tensor:
        x = x if public is None else next(public)
        return decoder_loss(decoder(even(coded(players.encoder, x))), x)

    def protecting(x: Tensor, y: Tensor) -> Tensor:
        z = players.encoder(x)
        task = several_tasks(players.classifier(z), y, players.sizes)
        guess = decoder(even(z))
        seen = perceptual_loss(guess, x, features) if features else task.new_zeros(())
        return arl_objective(task, error(guess, x), seen, lambda1, lambda2)

    skip_compiler()
    imitate = Stage(simulated, torch.optim.Adam(decoder.parameters(), lr=PACE * lr))
    return [imitate] * decoder_steps + [Stage(protecting, players.stepper(lr))]


def even(z: Tensor) -> Tensor:
    """Codes of a batch, every coordinate, or channel of a map, with mean 0 and deviation 1.

    The decoder sees them in this form while the encoder is trained against it. Otherwise the
    encoder wins by making codes larger, which a newly trained decoder undoes. Not in the papers.
    """
    axes = together(z)
    return (z - z.mean(dim=axes, keepdim=True)) / (
        z.std(dim=axes, correction=0, keepdim=True) + 1e-3
    )


def as_it_is(z: Tensor) -> Tensor:
    return z


def endless(x: Tensor, batch: int, draw: Source) -> Iterator[Tensor]:
    """Batches of samples in random order, pass after pass."""
    while True:
        for chosen in batches(len(x), min(batch, len(x)), draw):
            yield x[chosen]


def coded(encoder: nn.Module, x: Tensor) -> Tensor:
    """E(x) as the encoder's own training sees it, without a gradient."""
    with torch.no_grad():
        found: Tensor = encoder(x)
        return found
