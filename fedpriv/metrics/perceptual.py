"""A distance of deep features with a pluggable network (LPIPS kind; ARL eq. 4)."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedpriv.device import moved
from fedpriv.metrics.metric import Metric, pictures
from fedpriv.registry import imported

Features = Callable[[Tensor], list[Tensor]]  # pictures (N, C, H, W) -> maps (N, Cᵢ, Hᵢ, Wᵢ)


class RandomFeatures(nn.Module):
    """Three stages of fixed random filters, the same on every machine.

    Nothing is downloaded or trained. Random filters see structure, not meaning: give a trained
    network for claims about faces or objects.
    """

    def __init__(self, channels: int, width: int = 32, seed: int = 0) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        widths = (channels, width, 2 * width, 4 * width)
        self.stages = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(widths)
        )
        for parameter in self.parameters():
            deviation = parameter[0].numel() ** -0.5 if parameter.dim() > 1 else 0.1
            parameter.data.normal_(0, deviation, generator=draw)
            parameter.requires_grad_(False)

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []
        for stage in self.stages:
            x = stage(x).relu()
            maps.append(x)
        return maps


def feature_distance(guess: Tensor, truth: Tensor, features: Features) -> Tensor:
    """Sum over layers of the mean squared difference of unit-length feature vectors, (N,)."""
    total = torch.zeros(len(guess), dtype=torch.double, device=guess.device)
    with torch.no_grad():
        for a, b in zip(features(guess.float()), features(truth.float()), strict=True):
            gap = normalize(a, dim=1) - normalize(b, dim=1)
            total += gap.square().sum(dim=1).mean(dim=(1, 2)).double()
    return total


def perceptual(network: str = "") -> Metric:
    """A metric that compares pictures by features of a network.

    Args:
        network: `pkg.module:Name` of a callable from pictures to feature maps. Default: random
            filters of a fixed seed.
    """
    given: Features | None = imported(network, "network") if network else None
    made: dict[tuple[int, torch.device], Features] = {}

    def compare(guess: Tensor, truth: Tensor) -> Tensor:
        key = guess.shape[1], guess.device
        if key not in made:
            made[key] = moved(given, guess.device) or RandomFeatures(key[0]).to(guess.device)
        return feature_distance(guess, truth, made[key])

    return Metric(compare, leaks="low", said="feature distance", fits=pictures)
