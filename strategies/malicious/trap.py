"""Trap weights: rows that few samples pass, so that a row's gradient shows one (Boenisch 2023)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.errors import BadOption
from fedpriv.rng import generator
from fedpriv.state import State
from fedpriv.strategies.malicious.layers import features, opened, parts_of
from fedpriv.strategies.malicious.wrapper import Known

QUIET = 1e-3  # the size of planted weights: an update of small weights is rounded less


def trap_rows(rows: int, width: int, generator: torch.Generator) -> Tensor:
    """(rows, width): half of each row is negative, in a random order of its own."""
    weight = torch.randn(rows, width, generator=generator).abs()
    order = torch.rand(rows, width, generator=generator).argsort(1)
    return torch.where(order < width // 2, -weight, weight)


@dataclass(frozen=True)
class TrapWeights:
    """Random rows, their negative half scaled so that one sample in `batch` passes each of them.

    Unlike bins, rows differ from each other as trained ones do.

    Args:
        batch: One sample in this many passes each row; the batch size of the clients is a good
            choice.
        seed: Seed of what is planted.
    """

    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.batch < 2:
            raise BadOption(f"trap-weights: batch must be at least 2, got {self.batch}.")

    def __call__(self, state: State, known: Known) -> State:
        parts = parts_of(known.model, "trap-weights")
        draw = generator(self.seed, "trap-weights")
        planted = opened(parts, state, known.x, draw)
        inside = features(parts, planted, known.x, parts.front)
        key = parts.key(parts.front, "weight")
        honest = planted[key]
        weight = QUIET * trap_rows(len(honest), honest.shape[1], draw)
        # The bias takes the place of the scale: inputs are normalised and may be negative.
        cuts = (inside @ weight.T).quantile(1 - 1 / self.batch, dim=0)
        planted[key] = weight
        planted[parts.key(parts.front, "bias")] = -cuts
        return planted
