"""DATASETS and MODELS: the names people type."""

from torch import nn

from fedpriv.data.dataset import Dataset
from fedpriv.data.embedded import mnist_5k
from fedpriv.data.synthetic import synthetic
from fedpriv.models.alexnet import alexnet
from fedpriv.models.convnet import convnet
from fedpriv.models.dlnet import dlnet
from fedpriv.models.lenet import lenet
from fedpriv.models.mlp import mlp
from fedpriv.models.resnet import resnet20
from fedpriv.models.vgg import vgg16
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
        "alexnet": Entry(alexnet, "AlexNet for 32×32 images", "SPN table 4"),
        "vgg16": Entry(vgg16, "VGG16 with GroupNorm for 32×32 images", "SPN table 5"),
        "lenet": Entry(lenet, "LeNet-5", "LeCun 1998"),
        "convnet": Entry(convnet, "eight convolutions with BatchNorm", "ATS sect. 5.1"),
        "resnet20": Entry(resnet20, "ResNet20; width 64 is ResNet20-4", "ATS sect. 5.1"),
        "mlp": Entry(mlp, "fully connected layers, for images and tables"),
    },
)
