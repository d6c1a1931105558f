"""Image sets from disk or the hub."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fedpriv.data import hub as hub_
from fedpriv.data.dataset import Dataset
from fedpriv.data.sources import Source, arrays
from fedpriv.errors import BadData

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ImageSet:
    """What is publicly known about a set of square images."""

    source: Source
    side: int
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    label: str = "label"  # its columns on the hub
    picture: str = "image"
    test: str = "test"
    attributes: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name: (file, hub)

    def stored(self, root: str | None) -> Arrays:
        """Arrays by the names of the files: x_train (N, H, W[, 3]), y_train and so on."""
        path = self.source.file(root)
        if path is not None:
            keys = ["x_train", "y_train", "x_test", "y_test"]
            for file, _ in self.attributes.values():
                keys += [file.format(part) for part in ("train", "test")]
            return arrays(path, keys)
        found = {}
        tables = hub_.splits(self.source, ("train", self.test))
        for part, table in zip(("train", "test"), tables, strict=True):
            mode = "RGB" if len(self.mean) == 3 else "L"
            found[f"x_{part}"] = hub_.pictures(table, self.picture, self.side, mode)
            found[f"y_{part}"] = hub_.column(table, self.label)
            for file, name in self.attributes.values():
                found[file.format(part)] = hub_.column(table, name)
        return found

    def images(self, values: np.ndarray, part: str) -> Tensor:
        """uint8 (N, C, H, W) from channel-last bytes."""
        if values.ndim == 3:
            values = values[..., None]
        wanted = (self.side, self.side, len(self.mean))
        if values.dtype != np.uint8 or values.shape[1:] != wanted:
            raise BadData(
                f"The {part} images of '{self.source.name}' must be bytes of shape "
                f"{wanted}, got {values.dtype} of shape {values.shape[1:]}: is it another set's "
                "file?"
            )
        return torch.from_numpy(np.ascontiguousarray(values.transpose(0, 3, 1, 2)))

    def labels(self, values: np.ndarray, part: str) -> Tensor:
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise BadData(
                f"The {part} labels of '{self.source.name}' must be whole numbers, one a sample; "
                f"got {values.dtype} of shape {values.shape}."
            )
        return torch.from_numpy(values.astype(np.int64))

    def build(self, root: str | None, normalise: bool, hub: str) -> Dataset:
        chosen = replace(self, source=replace(self.source, hub=hub, subset=None)) if hub else self
        found = chosen.stored(root)
        attributes = {
            name: (
                self.labels(found[file.format("train")], name),
                self.labels(found[file.format("test")], name),
            )
            for name, (file, _) in self.attributes.items()
        }
        return Dataset(
            name=self.source.name,
            x_train=self.images(found["x_train"], "train"),
            y_train=self.labels(found["y_train"], "train"),
            x_test=self.images(found["x_test"], "test"),
            y_test=self.labels(found["y_test"], "test"),
            classes=self.classes,
            mean=self.mean if normalise else (0.0,) * len(self.mean),
            std=self.std if normalise else (1.0,) * len(self.std),
            attributes=attributes,
        )


def builder(known: ImageSet) -> Callable[..., Dataset]:
    """What DATASETS calls."""

    def build(root: str | None = None, normalise: bool = True, hub: str = "") -> Dataset:
        """The images of one set: from its .npz file in the folder, or else from the hub.

        The file has the arrays x_train and x_test, bytes of shape (N, H, W) or (N, H, W, 3), and
        y_train and y_test, whole numbers. A private attribute is two more arrays of whole numbers.

        Args:
            root: The folder with the files.
            normalise: Scale by the mean and the spread of the training samples. false keeps pixels
                between 0 and 1.
            hub: Another copy on the hub of data sets, by name.
        """
        return known.build(root, normalise, hub)

    return build


MNIST = ImageSet(
    Source("mnist", ("mnist.npz",), "ylecun/mnist"), 28, 10, mean=(0.1307,), std=(0.3081,)
)
FASHION_MNIST = ImageSet(
    Source(
        "fashion-mnist",
        ("fashion_mnist.npz", "fashion_mnist_10k.npz"),
        "zalando-datasets/fashion_mnist",
    ),
    side=28,
    classes=10,
    mean=(0.2860,),
    std=(0.3530,),
)
CIFAR10 = ImageSet(
    Source("cifar10", ("cifar10.npz", "cifar10_10k.npz"), "uoft-cs/cifar10"),
    side=32,
    classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    picture="img",
)
CIFAR100 = ImageSet(
    Source("cifar100", ("cifar100.npz", "cifar100_10k.npz"), "uoft-cs/cifar100"),
    side=32,
    classes=100,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    picture="img",
    label="fine_label",
    attributes={"coarse": ("y_{}_coarse", "coarse_label")},
)
SVHN = ImageSet(
    Source("svhn", ("svhn.npz", "svhn_5k.npz"), "ufldl-stanford/svhn", "cropped_digits"),
    side=32,
    classes=10,
    mean=(0.4377, 0.4438, 0.4728),
    std=(0.1980, 0.2010, 0.1970),
)
FAIRFACE = ImageSet(
    Source("fairface", ("fairface.npz", "fairface_48.npz")),
    side=48,
    classes=2,
    mean=(0.4818, 0.3586, 0.3037),
    std=(0.2559, 0.2226, 0.2160),
    label="gender",
    test="validation",
    attributes={name: (f"{name}_{{}}", name) for name in ("gender", "age", "race")},
)
OLIVETTI = ImageSet(
    Source("olivetti", ("olivetti.npz", "olivetti_faces.npz")),
    side=64,
    classes=40,
    mean=(0.5176,),
    std=(0.1634,),
)
