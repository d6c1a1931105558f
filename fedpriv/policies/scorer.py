"""Scorer: the two models and the images by which every candidate policy is judged."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from fedpriv.engine.gradients import Gradients
from fedpriv.errors import BadData
from fedpriv.policies.accuracy_score import accuracy_score
from fedpriv.policies.policy import Policy
from fedpriv.policies.privacy_score import (
    ROWS,
    GradientOf,
    Reduction,
    Rule,
    area,
    curve,
    picked,
    sample_gradients,
    stacked,
)
from fedpriv.policies.transforms import check_images
from fedpriv.rng import generator

SKETCHED = 3  # interpolation points of a sketch
REMEMBERED = 256 * 2**20  # bytes of gradients at the starting images that a process keeps


@dataclass(eq=False)
class Scorer:
    """Scores of policies, the same whatever the order, the batching or the machine.

    All policies are judged on the same images, starting images and batches, and a policy's chances
    depend on its name, the image and the seed alone: differences between policies are theirs.
    """

    semi_trained: nn.Module  # M^s of ATS alg. 1
    untrained: nn.Module  # M^r
    x: Tensor  # (N, C, H, W) uint8, for S_pri
    y: Tensor
    batches: Tensor  # (rounds, B, C, H, W) uint8, for S_acc
    mean: Sequence[float]
    std: Sequence[float]
    points: int = 10
    reduction: Reduction = "global"
    rule: Rule = "left"
    seed: int = 0

    def __post_init__(self) -> None:
        check_images(self.x)
        if self.x.dtype != torch.uint8:
            raise BadData(f"Policies are searched on uint8 images, got {self.x.dtype}.")

    def privacy(self, policy: Policy, first: int, last: int) -> list[float]:
        """GradSim's area for images `first` to `last` − 1, whose mean is S_pri (ATS eq. 7)."""
        return area(self.curves(policy, first, last, self.points), self.rule).tolist()

    def sketch(self, policy: Policy, first: int, last: int) -> list[float]:
        """The same from fewer points of each curve: images differ more than points do."""
        points = min(SKETCHED, self.points)
        return area(self.curves(policy, first, last, points), self.rule).tolist()

    def curves(self, policy: Policy, first: int, last: int, points: int) -> Tensor:
        """GradSim on the way to images `first` to `last` − 1, (last − first, points + 1)."""
        rows = slice(first, last)
        return curve(
            self._gradients,
            self.starts[rows],
            self.transformed(policy, first, last),
            self.y[rows],
            points,
            self.reduction,
            self._at_start and picked(self._at_start, rows),
        )

    def transformed(self, policy: Policy, first: int, last: int) -> Tensor:
        """T(x), normalised, of images `first` to `last` − 1."""
        draw = policy.draw(len(self.x), generator(self.seed, "privacy"))
        rows = slice(first, last)
        return self._normalised(policy.apply(self.x[rows], draw[rows]))

    def accuracy(self, policy: Policy, first: int, last: int) -> list[float]:
        """S_acc of rounds `first` to `last` − 1 (ATS eq. 10), of which the mean counts."""
        scores = []
        for turn in range(first, last):
            draw = generator(self.seed, "accuracy", policy, turn)
            x = self._normalised(policy(self.batches[turn], draw))
            x = x.contiguous(memory_format=torch.channels_last)
            scores.append(float(accuracy_score(self._channels_last, x)))
        return scores

    def on(self, device: str | torch.device) -> "Scorer":
        """The same on another device."""
        return replace(
            self,
            semi_trained=copy.deepcopy(self.semi_trained).to(device),
            untrained=copy.deepcopy(self.untrained).to(device),
            x=self.x.to(device),
            y=self.y.to(device),
            batches=self.batches.to(device),
        )

    @cached_property
    def _channels_last(self) -> nn.Module:
        """M^r in the layout in which a CPU passes through it a quarter faster."""
        model = copy.deepcopy(self.untrained).requires_grad_(False)
        return model.to(memory_format=torch.channels_last)

    @cached_property
    def _gradients(self) -> GradientOf:
        return sample_gradients(self.semi_trained, tuple(self.x.shape[1:]))

    @cached_property
    def starts(self) -> Tensor:
        """x_0: uniform noise, one picture per image."""
        noise = torch.rand(self.x.shape, generator=generator(self.seed, "start"))
        return self._normalised(noise.to(self.x.device))

    def _normalised(self, x: Tensor) -> Tensor:
        x = x.float() / 255 if x.dtype == torch.uint8 else x
        mean, std = (x.new_tensor(part).view(-1, 1, 1) for part in (self.mean, self.std))
        return (x - mean) / std

    @cached_property
    def _at_start(self) -> Gradients | None:
        """The gradients at the starting images, or None if they would take too much memory."""
        size = sum(value.numel() * value.element_size() for value in self.semi_trained.parameters())
        if size * len(self.x) > REMEMBERED:
            return None
        pairs = zip(self.starts.split(ROWS), self.y.split(ROWS), strict=True)
        return stacked([self._gradients(start, y) for start, y in pairs])
