"""User-level strategies with one known fault each, for canary clients to find."""

import math

import torch
from torch import Tensor

from fedpriv.strategies.roster import Roster
from fedpriv.strategies.user_privacy import UserLevel


class Faulty(UserLevel):
    """User-level DP on the server, with options of its own."""

    def __init__(
        self, *, clients: int, noise_multiplier: float = 1.0, clipping_norm: float = 1.0
    ) -> None:
        super().__init__(
            roster=Roster(clients),
            seed=0,
            noise_multiplier=noise_multiplier,
            clipping_norm=clipping_norm,
            by_clients=False,
        )
        self.clients = clients


class NoiseByRoot(Faulty):
    """The noise of the mean is divided by √n once more; the account knows nothing of it."""

    def __init__(
        self, *, clients: int, noise_multiplier: float = 1.0, clipping_norm: float = 1.0
    ) -> None:
        super().__init__(
            clients=clients, noise_multiplier=noise_multiplier, clipping_norm=clipping_norm
        )
        self.sum_noise /= math.sqrt(clients)


class SameNoise(Faulty):
    """Every round has the noise of the first."""

    def simulated(self) -> None:
        self.noise = same


def same(server_round: int, count: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(42), dtype=torch.float64)
