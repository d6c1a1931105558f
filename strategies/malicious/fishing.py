"""Fishing: heads that silence all samples but those of one class or one feature (Wen 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedpriv.errors import BadOption
from fedpriv.state import State
from fedpriv.strategies.malicious.layers import features, parts_of
from fedpriv.strategies.malicious.wrapper import Known


def fishing_head(weight: Tensor, row: Tensor, bias: float, target: int) -> tuple[Tensor, Tensor]:
    """A head whose features get a gradient only through the target class's row.

    The other rows are zero, so whatever their outputs, nothing flows back through them; through the
    target's row flows p − 1 for samples of the target class and p for the others.
    """
    planted, biases = torch.zeros_like(weight), torch.zeros(len(weight))
    planted[target], biases[target] = row, bias
    return planted, biases


def target_of(target: int, classes: int, attack: str) -> int:
    if not 0 <= target < classes:
        raise BadOption(f"{attack}: target must be a class, 0 to {classes - 1}, got {target}.")
    return target


@dataclass(frozen=True)
class ClassFishing:
    """Only samples of class `target` leave a gradient below the head.

    The probability p of `target` is near zero for every sample.

    Args:
        target: The class whose samples leave a gradient.
        depth: How far below the others the target's output lies.
    """

    target: int = 0
    depth: float = 15.0  # how far below the others the target's output lies

    def __call__(self, state: State, known: Known) -> State:
        parts = parts_of(known.model, "class-fishing")
        target = target_of(self.target, known.classes, "class-fishing")
        inside = features(parts, state, known.x, parts.head)
        weight = state[parts.key(parts.head, "weight")]
        row = weight[target]
        top = float((inside @ row).quantile(0.99))
        planted, bias = fishing_head(weight, row, -self.depth - max(top, 0.0), target)
        return state | {
            parts.key(parts.head, "weight"): planted,
            parts.key(parts.head, "bias"): bias,
        }


@dataclass(frozen=True)
class FeatureFishing:
    """Of class `target`, only the least typical samples leave a gradient: about one in `group`.

    A steep probe along the direction that tells the class from the others; samples well inside the
    class reach p = 1 and are silent, samples of other classes stay at p = 0 and are silent too.

    Args:
        target: The class whose least typical samples leave a gradient.
        group: About one in this many of them does.
        steepness: How sharply the probe tells them apart.
    """

    target: int = 0
    group: int = 2
    steepness: float = 200.0

    def __post_init__(self) -> None:
        if self.group < 2:
            raise BadOption(f"feature-fishing: group must be at least 2, got {self.group}.")

    def __call__(self, state: State, known: Known) -> State:
        parts = parts_of(known.model, "feature-fishing")
        target = target_of(self.target, known.classes, "feature-fishing")
        inside = features(parts, state, known.x, parts.head)
        direction = probe(inside, known.y == target)
        score = inside @ direction
        cut = float(score[known.y == target].quantile(1 / self.group))
        weight = state[parts.key(parts.head, "weight")]
        planted, bias = fishing_head(
            weight, self.steepness * direction, -self.steepness * cut, target
        )
        return state | {
            parts.key(parts.head, "weight"): planted,
            parts.key(parts.head, "bias"): bias,
        }


def probe(inside: Tensor, positive: Tensor, ridge: float = 1e-2) -> Tensor:
    """The direction of a ridge regression on membership, scaled.

    The means of the two groups then differ by 1.
    """
    centred = (inside - inside.mean(0)).double()
    wanted = positive.double() - positive.double().mean()
    gram = centred.T @ centred + ridge * len(inside) * torch.eye(inside.shape[1]).double()
    found: Tensor = torch.linalg.solve(gram, centred.T @ wanted).float()
    return found
