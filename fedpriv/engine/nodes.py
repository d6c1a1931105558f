"""What the functions of a traced model compute: one tensor, several, or only sizes."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

_SIZES = ("size", "dim", "numel", torch.numel, len)
_SHAPES = ("shape", "ndim", "device", "dtype")
_SEVERAL = (
    "chunk",
    "split",
    "unbind",
    "tensor_split",
    torch.chunk,
    torch.split,
    torch.unbind,
    torch.tensor_split,
)
_BOTH = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.iadd,
    operator.imul,
    torch.add,
    torch.sub,
    torch.mul,
    torch.div,
)


def is_size(node: fx.Node, sizes: set[fx.Node]) -> bool:
    """Whether a node asks only for the shape of a tensor, or calculates with such numbers."""
    if node.target in _SIZES or (node.target is getattr and node.args[1] in _SHAPES):
        return True
    return node.op == "call_function" and all(value in sizes for value in node.all_input_nodes)


def is_several(node: fx.Node) -> bool:
    """Whether a node gives a tuple of tensors, of which later nodes take their parts."""
    return node.target in _SEVERAL


def sources(node: fx.Node, known: dict[fx.Node, int]) -> list[fx.Node]:
    """The nodes with a slot that `node` reads, itself or through sizes and tuples."""
    found: dict[fx.Node, None] = {}
    waiting = list(node.all_input_nodes)
    while waiting:
        value = waiting.pop(0)
        if value in known:
            found[value] = None
        else:
            waiting += value.all_input_nodes
    return list(found)


def takes(node: fx.Node, shape: torch.Size) -> bool:
    """Whether a function of a held tensor is the same when it is given one tensor per row."""
    return node.target in _BOTH or (len(shape) > 1 and shape[0] == 1)


def as_function(
    node: fx.Node, reads: list[fx.Node], held: dict[fx.Node, torch.Size]
) -> Callable[..., Tensor]:
    """The node as a function of the tensors of `reads`; of a `held` tensor it gets one per row.

    In the model's code a held tensor of shape (1, …) stands for all rows, and any other one is
    aligned at the right.
    """

    def function(*tensors: Tensor) -> Tensor:
        most = max(value.ndim for one, value in zip(reads, tensors, strict=True) if one not in held)
        values: dict[fx.Node, Any] = {}
        for one, value in zip(reads, tensors, strict=True):
            if one in held:
                shape = held[one]
                if len(shape) > 1 and shape[0] == 1:
                    shape = shape[1:]
                if node.target in _BOTH:
                    shape = torch.Size([1] * (most - 1 - len(shape)) + list(shape))
                value = value.reshape(len(value), *shape)
            values[one] = value
        found: Tensor = _value(node, values)
        return found

    if node.target is not F.scaled_dot_product_attention:
        return function

    def by_plain_kernel(*tensors: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # the fused ones cannot be differentiated twice
            return function(*tensors)

    return by_plain_kernel


def _value(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    if node in values:
        return values[node]
    args = fx.node.map_arg(node.args, lambda one: _value(one, values))
    kwargs = fx.node.map_arg(node.kwargs, lambda one: _value(one, values))
    if node.op == "call_method":
        owner, *rest = args
        found = getattr(owner, str(node.target))(*rest, **kwargs)
    else:
        assert callable(node.target)
        found = node.target(*args, **kwargs)
    values[node] = found
    return found
