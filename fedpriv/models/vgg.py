"""VGG16 with group normalisation for small images (SPN table 5)."""

from torch import nn

from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised

BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))  # channels, convolutions
GROUPS = 32


def vgg16(
    channels: int, size: int, classes: int, activation: Activation = "relu", init: Init = "kaiming"
) -> nn.Module:
    """Thirteen 3×3 convolutions, each with GroupNorm, five poolings, linear 256 and classes.

    SPN table 5. The table contradicts itself: no square of 512 channels is 4,096 wide, and two of
    its poolings keep the size. Here each pooling halves, 32 to 1 as in VGG16, so the first linear
    layer is 512 wide. Odd sizes are rounded up, so that 28×28 digits fit. The paper does not give
    the groups; 32 is the usual number.

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("vgg16", channels, size, classes, smallest=8)
    act = ACTIVATIONS[activation]
    layers: list[nn.Module] = []
    before = channels
    for width, convolutions in BLOCKS:
        for _ in range(convolutions):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.GroupNorm(GROUPS, width), act()]
            before = width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
        size = (size + 1) // 2
    model = nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Linear(before * size * size, 256),
        act(),
        nn.Linear(256, classes),
    )
    return initialised(model, init)
