"""The imprint layer that a malicious server plants in front of a model, and its read-out."""

import time
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor, nn

from attacks.inversion.attack import Progress, Seen, victims_of
from fedpriv.errors import BadObservation, BadOption
from fedpriv.reconstruction import Reconstruction

LAYER = "imprint"


class Imprinted(nn.Module):
    """A model behind bins: every row of the planted layer measures the mean of x, each with its threshold.

    A sample passes the ReLU of all bins below its own measure, so that neighbouring bins differ by the
    samples between two thresholds (Robbing the Fed). What the bins let through returns to the input's size.
    """

    def __init__(
        self,
        model: nn.Module,
        input_shape: tuple[int, ...],
        bins: int = 128,
        mean: float = 0.0,
        spread: float = 1.0,
    ) -> None:
        super().__init__()
        if bins < 2 or spread <= 0:
            raise BadOption(f"an imprint needs bins >= 2 and spread > 0, got {bins} and {spread}.")
        size = int(torch.tensor(input_shape).prod())
        self.shape = tuple(input_shape)
        self.imprint = nn.Linear(size, bins)
        self.back = nn.Linear(bins, size)
        measure = NormalDist(mean, spread)
        thresholds = [measure.inv_cdf((i + 0.5) / bins) for i in range(bins)]
        with torch.no_grad():
            self.imprint.weight.fill_(1 / size)
            self.imprint.bias.copy_(-torch.tensor(thresholds))
            self.back.weight.fill_(1 / bins)
            self.back.bias.zero_()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        passed = torch.relu(self.imprint(x.flatten(1)))
        return self.model(self.back(passed).view(-1, *self.shape))


def read_out(weight: Tensor, bias: Tensor, least: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Candidates (bins, in) from differences of neighbouring bins, and their strengths (bins,).

    weight: (bins, in), bias: (bins,) gradients. A bin that caught one sample gives it exactly; one that
    caught several gives their weighted mean; an empty one has strength 0.
    """
    w = torch.cat([weight[:-1] - weight[1:], weight[-1:]])
    b = torch.cat([bias[:-1] - bias[1:], bias[-1:]])
    strength = b.abs()
    full = strength > least * strength.max().clamp_min(1e-30)
    x = w / torch.where(full, b, torch.ones_like(b)).unsqueeze(1)
    return x, torch.where(full, strength, torch.zeros_like(strength))


@dataclass(frozen=True)
class ImprintReadout:
    """Reads the samples out of the bins of a planted layer; keeps as many as the batch held."""

    layer: str = LAYER
    progress: Progress | None = None

    def __call__(self, seen: Seen) -> Reconstruction:
        started = time.perf_counter()
        victims = victims_of(seen)
        if f"{self.layer}.weight" not in victims.weights:
            raise BadObservation(
                f"the model has no planted layer '{self.layer}'; the read-out needs a server that planted "
                "one (attacks.imprint.Imprinted)."
            )
        weights, biases = (victims.gradient[f"{self.layer}.{part}"] for part in ("weight", "bias"))
        guesses = []
        for weight, bias in zip(weights.double(), biases.double(), strict=True):
            candidates, strength = read_out(weight, bias)
            inside = _plausible(candidates, victims.facts.mean, victims.facts.std)
            best = (strength * inside).argsort(descending=True)[: victims.slots]
            guesses.append(candidates[best].view(-1, *victims.facts.input_shape))
        x = torch.stack(guesses).float()
        return Reconstruction(
            x=x,
            labels=torch.zeros(x.shape[:2], dtype=torch.long) - 1,
            loss=torch.zeros(len(x)),
            seconds=time.perf_counter() - started,
            names=victims.names,
            mean=victims.facts.mean,
            std=victims.facts.std,
            extra={"labels": "not read by this attack"},
        )


def _plausible(x: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """1 for candidates within the range that pixels can have, with some room; else a millionth."""
    low = min(((0 - m) / s for m, s in zip(mean, std, strict=True)), default=0.0)
    high = max(((1 - m) / s for m, s in zip(mean, std, strict=True)), default=1.0)
    room = 0.1 * (high - low)
    inside = (x.amin(1) > low - room) & (x.amax(1) < high + room)
    return torch.where(inside, 1.0, 1e-6)
