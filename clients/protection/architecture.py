"""Models told apart by their architecture alone: what is found for one is kept for all."""

from torch import nn


class Architecture:
    """A model and the shape of its samples; equal to another with the same layers."""

    def __init__(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        self.module, self.shape = module, shape
        sizes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters())
        self.key = type(module), repr(module), sizes, shape

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Architecture) and self.key == other.key
