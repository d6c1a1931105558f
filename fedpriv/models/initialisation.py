"""What several networks are made of: activations by name, weight initialisation, sizes."""

from typing import Literal

from torch import nn

from fedpriv.errors import BadOption

Activation = Literal["sigmoid", "tanh", "relu"]
Init = Literal["default", "uniform", "kaiming", "fan-out"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
}


def initialised(model: nn.Module, init: Init, width: float = 0.3) -> nn.Module:
    """`model` with its weights drawn as asked for; "default" is torch's own way.

    "uniform" draws weights and biases from (−width, width) (SPN table 2), "kaiming" the weights of
    linear and convolutional layers as kaiming_uniform (SPN table 3), "fan-out" those of
    convolutions as kaiming_normal does by what they send out, as torchvision's ResNets and the
    inversion literature do.
    """
    if init == "uniform":
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -width, width)
    elif init == "kaiming":
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    elif init == "fan-out":
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return model


def checked(model: str, channels: int, size: int, classes: int, smallest: int) -> None:
    """Refuse inputs that `model` cannot take."""
    if channels < 1 or classes < 2 or size < smallest:
        raise BadOption(
            f"model '{model}' needs at least 1 channel, 2 classes and images of {smallest} pixels; "
            f"got channels={channels}, classes={classes}, size={size}."
        )
