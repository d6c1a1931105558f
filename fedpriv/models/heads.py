"""Any classifier as a backbone φ and its last linear layer (SPN sect. 3)."""

from typing import Any

from torch import Tensor, nn

from fedpriv.errors import BadOption


class Backbone(nn.Module):
    """What feeds `head` inside `model`; the parameters are the model's own, the head's included."""

    def __init__(self, model: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.model = model
        self._head = (head,)  # a tuple, so that the head is not registered a second time

    def forward(self, x: Tensor) -> Tensor:
        caught: list[Tensor] = []

        def catch(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            caught.append(inputs[0])

        handle = self._head[0].register_forward_pre_hook(catch)
        try:
            self.model(x)
        finally:
            handle.remove()
        if not caught:
            raise BadOption(
                f"The last linear layer of {type(self.model).__name__} takes no part in its "
                "forward pass; fedpriv needs a classifier that ends in a linear layer."
            )
        return caught[-1]


def last_linear(model: nn.Module) -> tuple[str, nn.Linear]:
    """Name and module of the linear layer that is defined last."""
    found = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    if not found:
        raise BadOption(
            f"{type(model).__name__} has no linear layer; fedpriv needs a classifier that ends in "
            "one."
        )
    return found[-1]


def split(model: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """(backbone, head) with head(backbone(x)) the logits; both share the model's parameters.

    For a Sequential that ends in its linear layer the backbone is the rest of it; any other
    model runs as it is, and the input of its last linear layer is caught on the way.
    """
    _, head = last_linear(model)
    if isinstance(model, nn.Sequential) and model[-1] is head:
        return model[:-1], head
    return Backbone(model, head), head
