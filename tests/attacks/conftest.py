"""Small worlds that an attack must win in: smooth nets, random images, one exact gradient."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fedpriv.engine.gradients import gradient_of
from fedpriv.evidence.observation import Observation
from fedpriv.rng import generator
from fedpriv.state import state_of

CLASSES, SHAPE = 5, (1, 8, 8)


def weighted(model: nn.Module, width: float = 0.5, seed: int = 0) -> nn.Module:
    """The model with weights uniform(−width, width), the same in every run."""
    stream = generator(seed, "weights")
    with torch.no_grad():
        for value in model.parameters():
            value.copy_((torch.rand(value.shape, generator=stream) * 2 - 1) * width)
    return model.eval()


def smooth_net(seed: int = 0) -> nn.Module:
    return weighted(
        nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2, padding=1),
            nn.Sigmoid(),
            nn.Conv2d(6, 6, 3, padding=1),
            nn.Sigmoid(),
            nn.Flatten(),
            nn.Linear(96, CLASSES),
        ),
        seed=seed,
    )


def pictures(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Smooth pictures in [0, 1] and labels."""
    stream = generator(seed, "pictures")
    coarse = torch.rand(n, 1, 3, 3, generator=stream)
    x = nn.functional.interpolate(coarse, size=SHAPE[1:], mode="bilinear", align_corners=True)
    return x, torch.randint(CLASSES, (n,), generator=stream)


def observe(
    model: nn.Module, x: Tensor, y: Tensor, batch: int = 1, **facts: object
) -> list[Observation]:
    """One observation per `batch` samples, of exact gradients."""
    found = []
    for i in range(len(x) // batch):
        part = slice(i * batch, (i + 1) * batch)
        found.append(
            Observation.of_gradient(
                state_of(model),
                gradient_of(model, x[part], y[part]),
                **{
                    "classes": CLASSES,
                    "input_shape": tuple(x.shape[1:]),
                    "batch_size": batch,
                    "num_examples": batch,
                    "mode": "eval",
                    "node": i,
                    "model": model,
                    **facts,
                },
            )
        )
    return found


def psnr(guess: Tensor, truth: Tensor) -> Tensor:
    error = (guess.clamp(0, 1) - truth).square().flatten(1).mean(1)
    return -10 * error.clamp_min(1e-12).log10()


@pytest.fixture
def net() -> nn.Module:
    return smooth_net()


@pytest.fixture
def seen(net: nn.Module) -> tuple[list[Observation], Tensor, Tensor]:
    """Three observations of one picture each, and the truth for scoring."""
    x, y = pictures(3)
    return observe(net, x, y), x, y


@pytest.fixture
def watch() -> Callable[..., list[Observation]]:
    return observe
