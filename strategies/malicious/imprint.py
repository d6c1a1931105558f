"""Imprint: bins of brightness planted in a linear layer, one sample to a bin (Fowl et al. 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.errors import BadOption
from fedpriv.rng import generator
from fedpriv.state import State
from fedpriv.strategies.malicious.layers import Parts, features, opened, parts_of
from fedpriv.strategies.malicious.wrapper import Known

# How much brightness varies in the planted layer: an update of small weights is rounded less
QUIET = 1e-3


def thresholds(brightness: Tensor, bins: int) -> Tensor:
    """(bins,) ascending: a normal law fitted to `brightness`, cut into equally likely parts."""
    law = torch.distributions.Normal(brightness.mean(), brightness.std())
    found: Tensor = law.icdf(torch.arange(bins) / bins + 0.5 / bins)
    return found


def steps_of(parts: Parts, state: State, spread: float) -> State:
    """The layer after the bins made the same for each of them, so that bins can be subtracted.

    Every column is one vector: a sample's gradient then is equal in all bins it fills, and
    differs from class to class, which gives its label away.
    """
    weight = state[parts.key(parts.second, "weight")]
    column = torch.linspace(-1, 1, len(weight)) * spread
    return {parts.key(parts.second, "weight"): column[:, None].expand_as(weight).clone()}


@dataclass(frozen=True)
class Imprint:
    """Unit i of the first linear layer is on for samples brighter than the i-th threshold.

    What two neighbours' gradients differ by belongs to the samples between their thresholds; with
    one sample there, gradient of weight over gradient of bias is that sample. `spread` is how much
    the planted layer moves the output.

    Args:
        spread: How much the planted layer moves the output.
        seed: Seed of what is planted.
    """

    spread: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.spread <= 0:
            raise BadOption(f"imprint: spread must be above 0, got {self.spread}.")

    def __call__(self, state: State, known: Known) -> State:
        parts = parts_of(known.model, "imprint")
        planted = opened(parts, state, known.x, generator(self.seed, "imprint"))
        inside = features(parts, planted, known.x, parts.front)
        key = parts.key(parts.front, "weight")
        bins, width = planted[key].shape
        row = torch.full((width,), QUIET / width) / inside.mean(1).std()
        cuts = thresholds(inside @ row, bins)
        planted[key] = row.expand(bins, width).clone()
        planted[parts.key(parts.front, "bias")] = -cuts
        return planted | steps_of(parts, planted, self.spread)
