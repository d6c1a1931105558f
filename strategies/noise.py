"""Gaussian noise of a server: from the system's randomness, or seeded for a simulation."""

import secrets
from collections.abc import Callable

import torch
from torch import Tensor

from fedpriv.cipher import CipherDraws
from fedpriv.rng import generator

Noise = Callable[[int, int], Tensor]  # round and count -> so many standard normal numbers


def system_noise(server_round: int, count: int) -> Tensor:
    """Standard normal numbers that nobody can draw again (count,), in double precision.

    The key of 256 bits comes from the system and is used once.
    """
    return CipherDraws(secrets.token_bytes(32)).normal((count,))


def seeded_noise(seed: int) -> Noise:
    """Noise that a simulation can repeat. Who knows the seed can take it out again."""

    def noise(server_round: int, count: int) -> Tensor:
        draw = generator(seed, "user-level noise", server_round)
        return torch.randn(count, dtype=torch.float64, generator=draw)

    return noise
