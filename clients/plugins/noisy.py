"""noisy and dnn-resized: random noise on codes, also after a PCA (RAN sect. 3.1; ARS fig. 4)."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.noise import laplace
from fedpriv.codes.perturbation import budget
from fedpriv.errors import BadOption
from fedpriv.rng import Draws


def uniform(like: Tensor, draw: Draws) -> Tensor:
    """Noise distributed uniformly between −1 and 1."""
    return 2 * draw.uniform(like.shape, like.dtype).to(like.device) - 1


@dataclass
class Noised:
    """What the noise of this round is scaled by, for each plugin, and how often it was drawn."""

    scales: dict["RandomNoise", Tensor] = field(default_factory=dict)
    calls: int = 0


@dataclass(frozen=True)
class Axes:
    """Mean (D,) and first principal axes (q, D) of the training codes of this round."""

    mean: Tensor
    axes: Tensor


def principal_axes(z: Tensor, keep: float) -> Axes:
    """The first `keep` of the principal axes of codes (N, D)."""
    mean = z.mean(dim=0)
    _, _, axes = torch.linalg.svd(z - mean, full_matrices=False)
    return Axes(mean, axes[: max(1, round(keep * len(axes)))])


@dataclass(frozen=True)
class RandomNoise(PrivacyPlugin):
    """Laplace or uniform noise on codes, or on raw data with the layer "input"; 0 is no defence.

    Args:
        scale: Scale of the noise on each coordinate; 0 is no defence.
        kind: The distribution of the noise.
        relative: Whether `scale` counts in standard deviations of each coordinate.
    """

    scale: float = 0.5
    kind: Literal["laplace", "uniform"] = "laplace"
    relative: bool = False  # the scale is in standard deviations of each coordinate

    def __post_init__(self) -> None:
        if not 0 <= self.scale < float("inf"):
            raise BadOption(f"noisy: scale must be at least 0 and finite, got {self.scale}.")

    def on_representation(self, z: Tensor, x: Tensor, job: Job) -> Tensor:
        if self.scale == 0:
            return z
        state = job.kept(Noised) or job.keep(Noised())
        scale = state.scales.setdefault(self, budget(z, self.scale, self.relative))
        state.calls += 1
        noise = laplace if self.kind == "laplace" else uniform
        return (z + scale * noise(z, job.draws(f"noisy-{state.calls}"))).to(z.dtype)


@dataclass(frozen=True)
class ResizedFeatures(PrivacyPlugin):
    """Keep a part of the codes' principal components, add noise; 1 and 0 are no defence.

    Args:
        keep: Part of the principal axes of the codes that is kept; 1 keeps all.
        scale: Scale of the noise on the codes that are left.
    """

    keep: float = 0.5
    scale: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise BadOption(f"dnn-resized: keep must be in (0, 1], got {self.keep}.")
        if not 0 <= self.scale < float("inf"):
            raise BadOption(f"dnn-resized: scale must be at least 0, got {self.scale}.")

    def on_representation(self, z: Tensor, x: Tensor, job: Job) -> Tensor:
        if self.keep < 1:
            kept = job.kept(Axes) or job.keep(principal_axes(z.flatten(1), self.keep))
            z = (kept.mean + (z.flatten(1) - kept.mean) @ kept.axes.T @ kept.axes).view_as(z)
        return RandomNoise(self.scale).on_representation(z, x, job)
