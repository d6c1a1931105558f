"""From which participant did this image come?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.errors import BadInput


@dataclass(frozen=True)
class Traces:
    """For each query: whose reconstruction is nearest, that reconstruction, and its MSE."""

    participants: Tensor
    nearest: Tensor
    mse: Tensor


def trace(queries: Tensor, reconstructions: Tensor, owners: Tensor, chunk: int = 256) -> Traces:
    """The owner of the reconstruction nearest to each query by MSE (SPN alg. 6).

    queries: (Q, …) images, reconstructions: (R, …), owners: (R,) participant of each one.
    """
    if not len(reconstructions) or len(reconstructions) != len(owners):
        raise BadInput(
            f"tracing needs one owner per reconstruction and at least one, got {len(owners)} "
            f"owners for {len(reconstructions)} reconstructions."
        )
    if queries.shape[1:] != reconstructions.shape[1:]:
        raise BadInput(
            f"queries are {tuple(queries.shape[1:])} and reconstructions "
            f"{tuple(reconstructions.shape[1:])}: they must have one shape."
        )
    guesses = reconstructions.flatten(1)
    parts = [
        ((part.flatten(1).unsqueeze(1) - guesses).square().mean(2)).min(1)
        for part in queries.split(max(1, chunk * 4096 // guesses.numel() + 1))
    ]
    nearest = torch.cat([part.indices for part in parts])
    return Traces(owners[nearest], nearest, torch.cat([part.values for part in parts]))
