"""What several networks are made of: activations by name, weight initialisation, sizes."""

from typing import Literal

from torch import nn

from fedpriv.errors import BadOption

Activation = Literal["sigmoid", "tanh", "relu"]
Init = Literal["default", "uniform"]

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
}


def initialised(model: nn.Module, init: Init, width: float = 0.3) -> nn.Module:
    """`model` with all weights and biases uniform(−width, width) if asked for (SPN table 2)."""
    if init == "uniform":
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -width, width)
    return model


def checked(model: str, channels: int, size: int, classes: int, smallest: int) -> None:
    """Refuse inputs that `model` cannot take."""
    if channels < 1 or classes < 2 or size < smallest:
        raise BadOption(
            f"model '{model}' needs at least 1 channel, 2 classes and images of {smallest} pixels; "
            f"got channels={channels}, classes={classes}, size={size}."
        )
