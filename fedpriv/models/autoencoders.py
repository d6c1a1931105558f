"""Encoder and decoder pairs with the papers' own layers.

ARS sect. 5.1.2, RAN sect. 3, ARL fig. 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

from torch import nn

from fedpriv.codes.coders import Coder, Stages, View, conv_coder, mlp_coder, refiner
from fedpriv.errors import BadOption


@dataclass(frozen=True)
class Conv:
    """A convolution of stride 1: its maps, its kernel and its padding."""

    maps: int
    kernel: int
    padding: int


Plan = dict[str, tuple[Conv, ...]]  # stages by name; each ends in a pooling

LENET: Plan = {"conv1": (Conv(6, 5, 2),), "conv2": (Conv(16, 5, 0),)}
ALEXNET: Plan = {
    "conv1": (Conv(64, 5, 2),),
    "conv2": (Conv(192, 5, 2),),
    "conv3": (Conv(384, 3, 1), Conv(256, 3, 1), Conv(256, 3, 1)),
}
VGG16: Plan = {
    f"conv{number}": (Conv(maps, 3, 1),) * count
    for number, (maps, count) in enumerate(
        ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), start=1
    )
}


def pooled(plan: Plan, shape: tuple[int, ...]) -> Coder:
    """Convolution, BatchNorm, ReLU and max-pooling; back by un-pooling and deconvolution (RAN 2.3).

    The decoder mirrors the encoder layer by layer, the strongest one the paper grants an attacker.
    Images (C, H, W) and signals (C, T).
    """
    if len(shape) not in (2, 3):
        raise BadOption(f"Convolutions need images or signals, got samples of shape {shape}.")
    flat = len(shape) == 2
    conv, deconv = (nn.Conv1d, nn.ConvTranspose1d) if flat else (nn.Conv2d, nn.ConvTranspose2d)
    norm, pool = (nn.BatchNorm1d, nn.MaxPool1d) if flat else (nn.BatchNorm2d, nn.MaxPool2d)
    maps = [shape[0], *(stage[-1].maps for stage in plan.values())]

    def encode() -> Stages:
        stages: Stages = {}
        for before, (name, convolutions) in zip(maps, plan.items(), strict=False):
            parts: list[nn.Module] = []
            for c in convolutions:
                parts += [
                    conv(before, c.maps, c.kernel, padding=c.padding),
                    norm(c.maps),
                    nn.ReLU(),
                ]
                before = c.maps
            stages[name] = nn.Sequential(*parts, pool(2, ceil_mode=True))
        return stages

    def decode(shapes: Sequence[tuple[int, ...]], width: int) -> nn.Module:
        if shapes[0] == shapes[1]:
            return refiner(shape, width)
        layers: list[nn.Module] = []
        before = shapes[-1][0]
        for i in reversed(range(len(shapes) - 1)):
            convolutions = list(plan.values())[i]
            lost = sum(c.kernel - 1 - 2 * c.padding for c in convolutions)
            layers.append(nn.Upsample(size=tuple(side - lost for side in shapes[i][1:])))
            outs = [maps[i], *(c.maps for c in convolutions[:-1])]
            for j in reversed(range(len(convolutions))):
                c, last = convolutions[j], i == j == 0
                out = shape[0] if last else outs[j] * width
                layers.append(deconv(before, out, c.kernel, padding=c.padding))
                layers += [] if last else [norm(out), nn.ReLU()]
                before = out
        return nn.Sequential(*layers)

    return Coder(shape, encode, decode)


def ran_lenet(shape: tuple[int, ...]) -> Coder:
    """LeNet's two convolutions, for MNIST and HAR (RAN sect. 3).

    Its classifier is 120 and 84 wide.
    """
    return pooled(LENET, shape)


def ran_alexnet(shape: tuple[int, ...]) -> Coder:
    """AlexNet's five convolutions as in SPN table 4, for CIFAR-10 (RAN sect. 3)."""
    return pooled(ALEXNET, shape)


def ran_vgg16(shape: tuple[int, ...]) -> Coder:
    """VGG16's thirteen convolutions, for ImageNet (RAN sect. 3)."""
    return pooled(VGG16, shape)


def ars_dense(shape: tuple[int, ...], layers: int = 3, width: int = 512, code: int = 256) -> Coder:
    """Fully connected layers with codes of 256: three for MNIST, four for Adult.

    ARS sect. 5.1.2 and 6.1. The paper gives the number of layers and the code; the width of the
    others is ours.

    Args:
        shape: Shape of a sample.
        layers: Fully connected layers of the encoder.
        width: Their width.
        code: Numbers in a code.
    """
    if layers < 1:
        raise BadOption(f"layers must be at least 1, got {layers}.")
    return mlp_coder(shape, hidden=(width,) * (layers - 1), code=code)


def ars_conv(shape: tuple[int, ...], widths: tuple[int, ...] = (32, 64, 128, 256)) -> Coder:
    """Four convolutions, for 96×96 faces; share the layer `conv4` (ARS sect. 5.1.2).

    The widths are ours.

    Args:
        shape: Shape of a sample.
        widths: Channels of the convolutions.
    """
    return conv_coder(shape, widths=widths, code=256)


def arl_resnet(shape: tuple[int, ...], depth: Literal[18, 50] = 50) -> Coder:
    """ResNet-50 cut at one of the six layers of ARL table 3, and the decoder of ARL fig. 6.

    Depth 18 is for machines without a GPU. The figure's decoder ends in tanh; this one is linear,
    since samples are scaled by their mean and spread, not to [−1, 1].

    Args:
        shape: Shape of a sample.
        depth: Layers of the ResNet; 18 is for machines without a GPU.
    """
    if len(shape) != 3:
        raise BadOption(f"ResNet needs images, got samples of shape {shape}.")

    def encode() -> Stages:
        from torchvision.models import resnet18, resnet50  # seconds to import

        net = (resnet18 if depth == 18 else resnet50)(weights=None)
        if shape[0] != 3:
            net.conv1 = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False)
        return {
            "layer1": nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1),
            "layer2": net.layer2,
            "layer3": net.layer3,
            "layer4": net.layer4,
            "avgpool": nn.Sequential(net.avgpool, nn.Flatten()),
            "fc": net.fc,
        }

    return Coder(shape, encode, _arl_decoder)


def _arl_decoder(shapes: Sequence[tuple[int, ...]], width: int) -> nn.Module:
    """Linear layers out of vectors, then up-sampling and 3×3 deconvolutions through the stages."""
    if shapes[0] == shapes[1]:
        return refiner(shapes[0], width)
    sample, maps = shapes[0], [shape for shape in shapes[1:] if len(shape) == 3]
    stem = (64, (sample[1] + 1) // 2, (sample[2] + 1) // 2)
    layers: list[nn.Module] = []
    vectors = [shape[0] for shape in shapes if len(shape) == 1]
    for before, after in pairwise([*reversed(vectors), prod(maps[-1])]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    if vectors:
        layers.append(View(maps[-1]))
    before = maps[-1][0]
    for outer in reversed([stem, *maps[:-1]]):
        out = outer[0] * width
        layers += [
            nn.Upsample(size=outer[1:]),
            nn.ConvTranspose2d(before, out, 3, padding=1),
            nn.BatchNorm2d(out),
            nn.ReLU(),
        ]
        before = out
    layers += [
        nn.Upsample(size=sample[1:]),
        nn.ConvTranspose2d(before, sample[0], 3, padding=1),
    ]
    return nn.Sequential(*layers)
