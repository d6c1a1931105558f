"""Fully connected networks, for tables, codes and the linear-system attack (SPN theorem 2.2)."""

from itertools import pairwise

from torch import nn

from fedpriv.errors import BadOption
from fedpriv.models.initialisation import ACTIVATIONS, Activation, Init, checked, initialised


def mlp(
    channels: int,
    size: int,
    classes: int,
    hidden: tuple[int, ...] = (256,),
    activation: Activation = "relu",
    init: Init = "default",
) -> nn.Module:
    """Linear layers of the `hidden` widths, then one unit a class; no hidden one is a linear model.

    Takes anything with channels × size × size numbers; a table of D columns is channels=D, size=1.

    Args:
        channels: Channels of the input.
        size: Side of the input.
        classes: Number of classes.
        hidden: Widths of the hidden layers; none is a linear model.
        activation: The function after each layer. Smooth ones are easier to attack.
        init: How the first weights are drawn: torch's own way, evenly within ±0.3, by Kaiming's
            rule, or by Kaiming's rule for what a convolution sends out.
    """
    checked("mlp", channels, size, classes, smallest=1)
    if any(width < 1 for width in hidden):
        raise BadOption(f"model 'mlp': every hidden width must be at least 1, got {list(hidden)}.")
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise((channels * size * size, *hidden)):
        layers += [nn.Linear(before, after), ACTIVATIONS[activation]()]
    before = hidden[-1] if hidden else channels * size * size
    return initialised(nn.Sequential(*layers, nn.Linear(before, classes)), init)
