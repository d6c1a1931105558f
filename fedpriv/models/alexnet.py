"""AlexNet for small images (SPN table 4)."""

from torch import nn

from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised


def alexnet(
    channels: int, size: int, classes: int, activation: Activation = "relu", init: Init = "kaiming"
) -> nn.Module:
    """Convolutions of 64-192-384-256-256, three poolings, linear 256 and classes (SPN table 4).

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("alexnet", channels, size, classes, smallest=8)
    act = ACTIVATIONS[activation]
    model = nn.Sequential(
        nn.Conv2d(channels, 64, 5, padding=2),
        act(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 192, 5, padding=2),
        act(),
        nn.MaxPool2d(2),
        nn.Conv2d(192, 384, 3, padding=1),
        act(),
        nn.Conv2d(384, 256, 3, padding=1),
        act(),
        nn.Conv2d(256, 256, 3, padding=1),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256 * (size // 8) ** 2, 256),
        act(),
        nn.Linear(256, classes),
    )
    return initialised(model, init)
