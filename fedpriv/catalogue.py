"""DATASETS and MODELS: the names people type."""

from torch import nn

from fedpriv.data.dataset import Dataset
from fedpriv.data.embedded import mnist_5k
from fedpriv.data.synthetic import synthetic
from fedpriv.models.dlnet import dlnet
from fedpriv.models.lenet import lenet
from fedpriv.registry import Entry, Registry

# DATASETS.build(name, options, root=None or a folder)
DATASETS: Registry[Dataset] = Registry(
    "data",
    {
        "mnist-5k": Entry(mnist_5k, "5,000 MNIST digits, 28×28, no download", "LeCun 1998"),
        "synthetic": Entry(synthetic, "made-up images, table or signals, for tests"),
    },
)

# MODELS.build(name, options, channels=…, size=…, classes=…)
MODELS: Registry[nn.Module] = Registry(
    "model",
    {
        "dlnet": Entry(dlnet, "four 5×5 convolutions of 12, smooth", "SPN table 6"),
        "lenet": Entry(lenet, "LeNet-5", "LeCun 1998"),
    },
)
