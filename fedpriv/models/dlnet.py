"""DLNet, the network of the leakage analysis (SPN table 6)."""

from torch import nn

from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised


def dlnet(
    channels: int,
    size: int,
    classes: int,
    activation: Activation = "sigmoid",
    init: Init = "uniform",
) -> nn.Module:
    """Four 5×5 convolutions of 12 channels, strides 2, 2, 1, 1, and one linear layer (SPN table 6).

    Every layer is smooth, as L-BFGS needs; weights uniform(−0.3, 0.3) unless init is "default".

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("dlnet", channels, size, classes, smallest=4)
    act = ACTIVATIONS[activation]
    layers: list[nn.Module] = []
    for i, stride in enumerate((2, 2, 1, 1)):
        layers += [nn.Conv2d(12 if i else channels, 12, 5, stride, padding=2), act()]
        size = (size + stride - 1) // stride
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(12 * size * size, classes))
    return initialised(model, init)
