"""The ConvNet of eight convolutions (ATS sect. 5.1)."""

from torch import nn

from fedpriv.errors import BadOption
from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised


def convnet(
    channels: int,
    size: int,
    classes: int,
    width: int = 64,
    activation: Activation = "relu",
    init: Init = "default",
) -> nn.Module:
    """Eight 3×3 convolutions with BatchNorm, width to 4×width, two 3×3 poolings, one linear layer.

    The layers of the gradient-inversion literature; the paper says only "8-layer" (ATS sect. 5.1).

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        width: Channels of the first convolution.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("convnet", channels, size, classes, smallest=9)
    if width < 1:
        raise BadOption(f"model 'convnet': width must be at least 1, got {width}.")
    act = ACTIVATIONS[activation]
    layers: list[nn.Module] = []
    before = channels
    for i, factor in enumerate((1, 2, 2, 4, 4, 4, 4, 4)):
        after = factor * width
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), act()]
        if i in (5, 7):
            layers.append(nn.MaxPool2d(3))
            size //= 3
        before = after
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * size * size, classes))
    return initialised(model, init)
