"""Dataset: samples, labels and what is publicly known about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from fedpriv.errors import BadData, BadOption
from fedpriv.rng import seed_of


def stratified(labels: Tensor, n: int, seed: int) -> Tensor:
    """Indices of `n` samples, ascending, with class shares as in `labels` to within one sample."""
    counts = torch.bincount(labels).double()
    exact = counts * n / len(labels)
    take = exact.floor().long()
    order = torch.argsort(exact - take, descending=True, stable=True)
    take[order[: n - int(take.sum())]] += 1
    chosen = []
    for label, count in enumerate(take.tolist()):
        members = torch.nonzero(labels == label).flatten().numpy()
        draw = np.random.default_rng(seed_of(seed, "stratified", label))
        chosen.append(draw.permutation(members)[:count])
    return torch.from_numpy(np.sort(np.concatenate(chosen)))


@dataclass(frozen=True)
class Dataset:
    """Images uint8 (N, C, H, W), signals float32 (N, C, T) or tables float32 (N, D); labels int64.

    `mean` and `std` are per channel, of pixels in [0, 1] for images, of raw values for signals and
    empty for tables. `attributes` are (train, test) labels that are not the task's.
    `groups` names the columns of a table that came from one field; `ids` are (train, test)
    owners of the samples, for federations with natural clients.
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    attributes: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    groups: Mapping[str, slice] = field(default_factory=dict)
    ids: tuple[Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        for part, x, y in (
            ("train", self.x_train, self.y_train),
            ("test", self.x_test, self.y_test),
        ):
            if len(x) != len(y):
                raise BadData(
                    f"Data set '{self.name}' has {len(x)} {part} samples and {len(y)} labels; "
                    "each sample needs one label."
                )
            if not len(x):
                raise BadData(f"Data set '{self.name}' has no {part} samples.")
            low, high = int(y.min()), int(y.max())
            if low < 0 or high >= self.classes:
                raise BadData(
                    f"Data set '{self.name}' has {part} labels from {low} to {high}; "
                    f"with {self.classes} classes they must lie in 0..{self.classes - 1}."
                )
            if x.is_floating_point() and not bool(torch.isfinite(x).all()):
                raise BadData(f"Data set '{self.name}' has NaN or infinite {part} values.")
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            raise BadData(
                f"Data set '{self.name}' has train samples of shape {self.shape} and "
                f"test samples of shape {tuple(self.x_test.shape[1:])}."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample: (C, H, W), (C, T) or (D,)."""
        return tuple(self.x_train.shape[1:])

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3

    @property
    def dimensions(self) -> dict[str, int]:
        """The arguments of MODELS.build; what is no image is one long vector: size 1."""
        channels, size = (self.shape[0], self.shape[1]) if self.is_image else (prod(self.shape), 1)
        return {"channels": channels, "size": size, "classes": self.classes}

    def _scale(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """mean and std, shaped to broadcast over the last axes of a sample."""
        axes = (-1,) + (1,) * (len(self.shape) - 1)
        mean = torch.tensor(self.mean, dtype=torch.float32, device=like.device).view(axes)
        return mean, torch.tensor(self.std, dtype=torch.float32, device=like.device).view(axes)

    def normalised(self, x: Tensor) -> Tensor:
        """What a model takes: (x − mean) / std of bytes, or of floats in [0, 1], (…, *shape)."""
        x = x.float() / 255 if x.dtype == torch.uint8 else x.float()
        if not self.mean:
            return x
        mean, std = self._scale(x)
        return (x - mean) / std

    def denormalised(self, x: Tensor, clamp: bool = True) -> Tensor:
        """The inverse of `normalised`. Pictures are in [0, 1], clamped unless told otherwise."""
        if self.mean:
            mean, std = self._scale(x)
            x = x * std + mean
        return x.clamp(0, 1) if self.is_image and clamp else x

    def limited(self, n: int | None = None, seed: int = 0, tests: int | None = None) -> "Dataset":
        """`n` training samples and `tests` test samples, class shares kept.

        Without `tests` as large a part of the test samples as of the training samples.
        """
        total, held = len(self.y_train), len(self.y_test)
        n = total if n is None else n
        if not 0 < n <= total:
            raise BadOption(
                f"limit must be in 1..{total}, the training samples of '{self.name}', got {n}."
            )
        count = max(1, round(held * n / total)) if tests is None else min(tests, held)
        if n == total and count == held:
            return self
        train = stratified(self.y_train, n, seed)
        test = stratified(self.y_test, count, seed)
        attributes = {key: (a[train], b[test]) for key, (a, b) in self.attributes.items()}
        return replace(
            self,
            x_train=self.x_train[train],
            y_train=self.y_train[train],
            x_test=self.x_test[test],
            y_test=self.y_test[test],
            attributes=attributes,
            ids=None if self.ids is None else (self.ids[0][train], self.ids[1][test]),
        )
