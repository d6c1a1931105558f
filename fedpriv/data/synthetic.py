"""Small made-up sets: tests and the first run need no download."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadOption
from fedpriv.rng import generator


def smooth_images(classes: int, channels: int, size: int, draw: torch.Generator) -> Tensor:
    """One soft random pattern a class, in [0, 1], (K, C, S, S)."""
    coarse = torch.rand(classes, channels, 4, 4, generator=draw)
    return interpolate(coarse, size=(size, size), mode="bilinear", align_corners=True)


def synthetic(
    root: str | None = None,
    kind: Literal["images", "table", "signals"] = "images",
    train: int = 512,
    test: int = 128,
    classes: int = 4,
    channels: int = 1,
    size: int = 16,
    noise: float = 0.1,
    seed: int = 0,
) -> Dataset:
    """A pattern for each class plus Gaussian noise: images, a table or signals. Made on the spot.

    Args:
        root: Not read.
        kind: What is made.
        train: Training samples.
        test: Test samples.
        classes: Number of classes.
        channels: Channels of images and signals.
        size: Side of images, length of signals, columns of the table.
        noise: Standard deviation of the noise on each pattern.
        seed: Seed of patterns and noise.
    """
    if classes < 2 or min(train, test) < classes or channels < 1 or size < 4 or noise < 0:
        raise BadOption(
            "synthetic needs classes >= 2, at least one sample a class in train and test, "
            f"channels >= 1, size >= 4 and noise >= 0; got classes={classes}, train={train}, "
            f"test={test}, channels={channels}, size={size}, noise={noise}."
        )
    draw = generator(seed, "synthetic", kind)
    patterns = smooth_images(classes, channels, size, draw)
    if kind == "table":
        patterns = patterns[:, 0, size // 2]
    elif kind == "signals":
        patterns = patterns[:, :, size // 2]

    def samples(count: int) -> tuple[Tensor, Tensor]:
        y = torch.arange(count) % classes
        y = y[torch.randperm(count, generator=draw)]
        x = patterns[y]
        x = x + noise * torch.randn(x.shape, generator=draw)
        if kind == "images":
            x = (x.clamp(0, 1) * 255).round().to(torch.uint8)
        return x, y

    (x_train, y_train), (x_test, y_test) = samples(train), samples(test)
    return Dataset(
        name="synthetic",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        classes=classes,
        mean=() if kind == "table" else (0.5,) * channels,
        std=() if kind == "table" else (0.25,) * channels,
        groups={f"column-{i}": slice(i, i + 1) for i in range(size)} if kind == "table" else {},
    )
