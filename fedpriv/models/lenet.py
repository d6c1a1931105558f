"""LeNet-5."""

from torch import nn

from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised


def lenet(
    channels: int, size: int, classes: int, activation: Activation = "relu", init: Init = "default"
) -> nn.Module:
    """LeNet-5: 6 and 16 maps of 5×5 with 2×2 average pooling, then 120, 84 and one unit a class.

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("lenet", channels, size, classes, smallest=12)
    act = ACTIVATIONS[activation]
    # 28×28 digits are padded to the 32×32 the network was made for.
    padding = 2 if size < 32 else 0
    side = ((size + 2 * padding - 4) // 2 - 4) // 2
    model = nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding),
        act(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        act(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * side * side, 120),
        act(),
        nn.Linear(120, 84),
        act(),
        nn.Linear(84, classes),
    )
    return initialised(model, init)
