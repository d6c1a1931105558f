"""Gaussian noise of a server: from the system's randomness, or seeded for a simulation."""

import secrets
from collections.abc import Callable

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from torch import Tensor

from fedpriv.rng import generator

Noise = Callable[[int, int], Tensor]  # round and count -> so many standard normal numbers
SUMMED = 4  # Gaussians in each number


def system_noise(server_round: int, count: int) -> Tensor:
    """Standard normal numbers that nobody can draw again (count,), in double precision.

    The key of 256 bits comes from the system and is used once. Each number is a sum of several
    Gaussians, so that its last bits do not tell which number it came from (Holohan & Braghin 2021).
    """
    cipher = Cipher(ChaCha20(secrets.token_bytes(32), secrets.token_bytes(16)), mode=None)
    stream = cipher.encryptor().update(bytes(8 * 2 * SUMMED * count))
    bits = np.frombuffer(stream, np.uint64).reshape(2, SUMMED, count) >> np.uint64(11)
    radius, angle = (bits + 0.5) * 2.0**-53  # uniform, never 0
    gaussians = np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * angle)
    return torch.from_numpy(gaussians.sum(axis=0) / SUMMED**0.5)


def seeded_noise(seed: int) -> Noise:
    """Noise that a simulation can repeat. Who knows the seed can take it out again."""

    def noise(server_round: int, count: int) -> Tensor:
        draw = generator(seed, "user-level noise", server_round)
        return torch.randn(count, dtype=torch.float64, generator=draw)

    return noise
