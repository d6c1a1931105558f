"""Where weights can be planted: first hidden linear layer, what comes before it, and head."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpriv.errors import BadOption
from fedpriv.state import State

AFFINE_ABOVE_ZERO = (nn.ReLU, nn.LeakyReLU)
PASSED_THROUGH = (nn.AvgPool2d, nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d)


@dataclass(frozen=True)
class Parts:
    """A classifier that is a row of layers, seen from its first hidden linear layer."""

    layers: nn.Sequential
    front: int  # position of the first linear layer; before it come only convolutions and the like
    second: int  # position of the next linear layer
    head: int  # position of the last linear layer

    def key(self, position: int, name: str) -> str:
        return f"{position}.{name}"


def parts_of(model: nn.Module, attack: str) -> Parts:
    """The parts; BadOption says why this attack cannot be planted in this model."""
    if not isinstance(model, nn.Sequential):
        raise BadOption(
            f"'{attack}' needs a model that is a plain row of layers (mlp, lenet, …), "
            f"got {type(model).__name__}."
        )
    linear = [i for i, layer in enumerate(model) if isinstance(layer, nn.Linear)]
    if len(linear) < 2:
        raise BadOption(
            f"'{attack}' needs a linear layer before the last one; this model has {len(linear)}."
        )
    between = list(model[linear[0] + 1 : linear[1]])
    if not any(isinstance(layer, nn.ReLU) for layer in between):
        raise BadOption(f"'{attack}' needs a ReLU after the first linear layer.")
    return Parts(model, linear[0], linear[1], linear[-1])


@torch.no_grad()
def opened(parts: Parts, state: State, x: Tensor, generator: torch.Generator) -> State:
    """The state with a front that is affine on inputs like `x`: the input can be solved for.

    Filters are random directions, which lose nothing that the layer's size can hold; biases lift
    every unit above zero, where a ReLU changes nothing.
    """
    result = dict(state)
    for i, layer in enumerate(parts.layers[: parts.front]):
        if isinstance(layer, nn.Conv2d):
            weight = torch.randn(layer.weight.shape, generator=generator)
            weight /= weight.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            bare = nn.functional.conv2d(
                x, weight, None, layer.stride, layer.padding, layer.dilation, layer.groups
            )
            bias = bare.std() - bare.amin((0, 2, 3))
            result[parts.key(i, "weight")] = weight
            result[parts.key(i, "bias")] = bias
            x = bare + bias.view(-1, 1, 1)
        elif isinstance(layer, PASSED_THROUGH + AFFINE_ABOVE_ZERO):
            x = layer.eval()(x)
        else:
            raise BadOption(
                f"the image does not pass through a {type(layer).__name__}; only convolutions, "
                "ReLUs, average pooling and flattening can be opened."
            )
    return result


@torch.no_grad()
def features(parts: Parts, state: State, x: Tensor, upto: int) -> Tensor:
    """What enters the layer at position `upto` when the state's model sees x."""
    for i, layer in enumerate(parts.layers[:upto]):
        own = {
            name: state[parts.key(i, name)]
            for name, _ in [*layer.named_parameters(), *layer.named_buffers()]
        }
        x = torch.func.functional_call(layer.eval(), own, (x,))
    return x.flatten(1)
