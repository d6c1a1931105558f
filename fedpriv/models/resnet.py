"""ResNet20 for small images (ATS sect. 5.1)."""

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import pad

from fedpriv.errors import BadOption
from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised

Shortcut = Literal["projection", "padding"]


class Padding(nn.Module):
    """A shortcut without weights: every `stride`-th pixel, and zeros for the added channels."""

    def __init__(self, added: int, stride: int) -> None:
        super().__init__()
        self.added, self.stride = added, stride

    def forward(self, x: Tensor) -> Tensor:
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class Block(nn.Module):
    """act(bn(conv(act(bn(conv x)))) + shortcut x)."""

    def __init__(
        self, before: int, after: int, stride: int, shortcut: Shortcut, activation: Activation
    ) -> None:
        super().__init__()
        act = ACTIVATIONS[activation]
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.act1 = act()
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if before != after and shortcut == "projection":
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )
        elif before != after:
            self.shortcut = Padding(after - before, stride)
        self.act2 = act()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.act1(self.bn1(self.conv1(x)))
        found: Tensor = self.act2(self.bn2(self.conv2(inner)) + self.shortcut(x))
        return found


def resnet20(
    channels: int,
    size: int,
    classes: int,
    width: int = 16,
    shortcut: Shortcut = "projection",
    activation: Activation = "relu",
    init: Init = "default",
) -> nn.Module:
    """Three stages of three blocks, width to 4×width, BatchNorm; width 64 is ATS's "ResNet20-4".

    Shortcuts are 1×1 projections, as in ATS's experiments, or "padding", as in the first ResNet20.

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        width: Channels of the first stage.
        shortcut: How a block that halves the size passes its input on: by a 1×1 convolution, or
            padded with zeros.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("resnet20", channels, size, classes, smallest=4)
    if width < 1:
        raise BadOption(f"model 'resnet20': width must be at least 1, got {width}.")
    blocks: list[nn.Module] = []
    before = width
    for stage in range(3):
        for i in range(3):
            after = width << stage
            stride = 2 if stage and not i else 1
            blocks.append(Block(before, after, stride, shortcut, activation))
            before = after
    model = nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        ACTIVATIONS[activation](),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(before, classes),
    )
    return initialised(model, init)
