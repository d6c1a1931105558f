"""The classifier's last linear layer, where labels and features can be read from a gradient."""

from dataclasses import dataclass

from torch import Tensor, nn

from fedpriv.errors import BadObservation
from fedpriv.evidence.victims import Victims


@dataclass(frozen=True)
class Head:
    """The last linear layer's gradient: weight (V, C, features), and bias (V, C) if it has one."""

    path: str
    weight: Tensor
    bias: Tensor | None


def linear_heads(victims: Victims) -> list[str]:
    """The linear layers with one output per class; the last of them is the head."""
    return [
        path
        for path, module in victims.model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == victims.facts.classes
    ]


def single_output(victims: Victims) -> str | None:
    """The last linear layer, where there are two classes and it has one output for both."""
    layers = [
        (path, module)
        for path, module in victims.model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    if victims.facts.classes != 2 or not layers:
        return None
    path, last = layers[-1]
    return path if last.out_features == 1 and last.bias is not None else None


def last_biases(victims: Victims) -> Tensor | None:
    """The bias gradients (V, C) of a last convolution that gives the classes, as in SqueezeNet."""
    found = [
        path
        for path, module in victims.model.named_modules()
        if isinstance(module, nn.Conv2d)
        and module.out_channels == victims.facts.classes
        and module.bias is not None
    ]
    return victims.gradient[f"{found[-1]}.bias" if found[-1] else "bias"] if found else None


def head_of(victims: Victims) -> Head:
    """The head's part of the observed gradients."""
    linear = linear_heads(victims)
    if not linear:
        raise BadObservation(
            f"the model has no linear layer with {victims.facts.classes} outputs: labels cannot be "
            "read from it, search for them instead (labels = 'joint')."
        )
    path = linear[-1]
    prefix = f"{path}." if path else ""
    gradient = victims.gradient
    return Head(path, gradient[f"{prefix}weight"], gradient.get(f"{prefix}bias"))
