"""A module as a list of rules, if the explicit engine knows all its layers."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from fedpriv.engine import activations, layers
from fedpriv.engine.attention import attention, transformer, transformer_layer
from fedpriv.engine.lines import Line, Lines, Unknown
from fedpriv.engine.local import Held, Local
from fedpriv.engine.nodes import as_function, is_several, is_size, sources, takes
from fedpriv.engine.rules import Identity, LinearMap, Product, Reshape, Rule, Sum
from fedpriv.state import State

_FUNCTIONS: dict[Any, Rule] = {
    torch.relu: activations.RELU,
    F.relu: activations.RELU,
    "relu": activations.RELU,
    F.relu6: activations.RELU6,
    torch.sigmoid: activations.SIGMOID,
    F.sigmoid: activations.SIGMOID,
    "sigmoid": activations.SIGMOID,
    torch.tanh: activations.TANH,
    F.tanh: activations.TANH,
    "tanh": activations.TANH,
    F.silu: activations.SILU,
    F.hardswish: activations.HARDSWISH,
    F.hardsigmoid: activations.HARDSIGMOID,
    F.gelu: activations.GELU,
    F.elu: activations.ELU,
    F.leaky_relu: activations.leaky(0.01),
    operator.add: Sum(),
    operator.iadd: Sum(),
    torch.add: Sum(),
    operator.mul: Product(),
    operator.imul: Product(),
    torch.mul: Product(),
}
_LINEAR = (F.pad, F.avg_pool2d, F.adaptive_avg_pool2d, torch.mean, "mean", operator.getitem)
_SCALING = (operator.mul, operator.imul, operator.truediv, torch.mul, torch.div)
_LAYERS: dict[type[nn.Module], Callable[[Lines, int, str, Any], int]] = {
    nn.Conv2d: layers.convolution,
    nn.Linear: lambda lines, slot, path, module: layers.dense(lines, slot, path),
    nn.BatchNorm1d: layers.batch_norm,
    nn.BatchNorm2d: layers.batch_norm,
    nn.GroupNorm: layers.group_norm,
    nn.LayerNorm: layers.layer_norm,
    nn.TransformerEncoderLayer: transformer_layer,
    nn.TransformerEncoder: transformer,
}


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.Hardsigmoid) or super().is_leaf_module(m, module_qualified_name)


class _Reader:
    """Walks a traced graph once; raises Unknown at the first node it cannot take."""

    def __init__(self, model: nn.Module, weights: State, buffers: State) -> None:
        self.lines = Lines(weights, buffers)
        self.graph = _Tracer().trace(model)
        self.model = model
        self.modules = dict(model.named_modules())
        self.slots: dict[fx.Node, int] = {}
        self.sizes: set[fx.Node] = set()
        self.tuples: set[fx.Node] = set()
        self.held: dict[fx.Node, torch.Size] = {}

    def read(self) -> list[Line]:
        for node in self.graph.nodes:
            if node in self.slots:
                continue
            if node.op == "placeholder":
                self.placeholder(node)
            elif node.op == "get_attr":
                self.attribute(node, str(node.target))
            elif node.op == "call_module":
                self.module(node, str(node.target), self.modules[str(node.target)])
            elif node.op in ("call_function", "call_method"):
                self.function(node)
            else:
                last = node.args[0]
                if not isinstance(last, fx.Node) or self.slots.get(last) != len(self.lines.found):
                    raise Unknown("the output is not the last layer")
        if unused := self.lines.weights.keys() - self.lines.used:
            raise Unknown(f"'{min(unused)}' is not a layer's parameter")
        return self.lines.found

    def placeholder(self, node: fx.Node) -> None:
        if self.slots:
            raise Unknown("the model takes several inputs")
        self.slots[node] = 0

    def attribute(self, node: fx.Node, path: str) -> None:
        """A parameter or a buffer that the model's own code uses."""
        lines, shape = self.lines, operator.attrgetter(path)(self.model).shape
        names = lines.owned("", value=path)
        if not names and path not in lines.buffers:
            raise Unknown(f"'{path}' is neither a parameter nor a buffer")
        value = lines.weights[path] if names else lines.buffers[path]
        self.slots[node] = lines.add(Held(value, len(shape), bool(names)), [0], names)
        self.held[node] = shape

    def module(self, node: fx.Node, path: str, module: nn.Module) -> None:
        inputs = [self.slots[value] for value in self.direct(node)]
        if isinstance(module, nn.MultiheadAttention):
            self.attention(node, path, module, inputs)
            return
        if len(inputs) != 1 or len(node.args) != 1 or node.kwargs:
            raise Unknown(f"{type(module).__name__} '{path}' is called with several inputs")
        if type(module) is nn.Conv2d and (norm := self.norm_behind(node)) is not None:
            after = self.modules[str(norm.target)]
            assert isinstance(after, nn.BatchNorm2d)
            slot = layers.convolution(
                self.lines, inputs[0], path, module, (str(norm.target), after)
            )
            self.slots[norm] = slot
        else:
            add = _LAYERS.get(type(module), layers.plain)
            slot = add(self.lines, inputs[0], path, module)
        self.slots[node] = slot

    def attention(
        self, node: fx.Node, path: str, module: nn.MultiheadAttention, inputs: list[int]
    ) -> None:
        options = {key: value for key, value in node.kwargs.items() if value not in (None, False)}
        if len(set(inputs)) != 1 or len(node.args) != 3 or options.keys() - {"need_weights"}:
            raise Unknown(f"MultiheadAttention '{path}' is not a plain attention to itself")
        slot = attention(self.lines, inputs[0], path, module)
        self.tuples.add(node)
        for user in node.users:
            if user.target is not operator.getitem or user.args[1] != 0:
                if user.users:
                    raise Unknown(f"the weights of MultiheadAttention '{path}' are used")
                self.tuples.add(user)
            else:
                self.slots[user] = slot

    def direct(self, node: fx.Node) -> list[fx.Node]:
        """The tensors among a node's positional arguments."""
        return [one for one in node.args if isinstance(one, fx.Node) and one in self.slots]

    def norm_behind(self, node: fx.Node) -> fx.Node | None:
        """The BatchNorm that is the only reader of a convolution and keeps its statistics."""
        norm = next(iter(node.users)) if len(node.users) == 1 else None
        after = self.modules.get(str(norm.target)) if norm and norm.op == "call_module" else None
        return (
            norm if isinstance(after, nn.BatchNorm2d) and not layers.of_the_batch(after) else None
        )

    def function(self, node: fx.Node) -> None:
        if node.target is torch._assert or not node.users:
            return
        if is_size(node, self.sizes):
            self.sizes.add(node)
        elif is_several(node):
            self.tuples.add(node)
        else:
            reads = sources(node, self.slots)
            rule = self.own_rule(node, reads)
            if rule is None:
                for one in reads:
                    if one in self.held and not takes(node, self.held[one]):
                        name = getattr(node.target, "__name__", node.target)
                        raise Unknown(f"the function '{name}' of '{one.target}' has no rule")
                rule = Local(as_function(node, reads, self.held))
            self.slots[node] = self.lines.add(rule, [self.slots[one] for one in reads])

    def own_rule(self, node: fx.Node, reads: list[fx.Node]) -> Rule | None:
        """The rule made for this function, if there is one; any other is left to autograd."""
        target, direct = node.target, self.direct(node)
        if direct != reads or any(one in self.held for one in reads):
            return None
        if target in (torch.flatten, "flatten", "view", "reshape") and _flattens(node):
            return Reshape()
        if target in _FUNCTIONS and _plain(node) and len(direct) == len(node.args):
            return _FUNCTIONS[target]
        if len(reads) != 1 or node.args[0] is not reads[0]:
            return None
        if getattr(target, "__name__", "") == "stochastic_depth" and not _training(node):
            return Identity()
        if target in (F.max_pool2d, torch.max_pool2d):
            return _max_pool(node)
        if target in _SCALING + _LINEAR and len(node.all_input_nodes) == 1:
            return LinearMap(_called(node))
        return None


def _plain(node: fx.Node) -> bool:
    """Whether a function is called with tensors alone."""
    inner = {key: value for key, value in node.kwargs.items() if key != "inplace"}
    return not inner and all(isinstance(value, fx.Node) for value in node.args)


def _training(node: fx.Node) -> bool:
    """Whether stochastic depth is on."""
    return bool(node.kwargs.get("training", node.args[3] if len(node.args) > 3 else True))


def _flattens(node: fx.Node) -> bool:
    """Whether a reshaping node turns (N, …) into (N, features)."""
    rest = node.args[1:]
    if node.target in (torch.flatten, "flatten"):
        start = rest[0] if rest else node.kwargs.get("start_dim", 0)
        return bool(start == 1 and len(rest) < 2 and "end_dim" not in node.kwargs)
    return bool(len(rest) == 2 and rest[1] == -1 and isinstance(rest[0], fx.Node))


def _called(node: fx.Node) -> Callable[[Tensor], Tensor]:
    """A linear node as a function of its one input."""
    target, args, kwargs = node.target, node.args[1:], dict(node.kwargs)
    if isinstance(target, str):
        return lambda a: getattr(a, target)(*args, **kwargs)
    assert callable(target)
    return lambda a: target(a, *args, **kwargs)


def _max_pool(node: fx.Node) -> Rule:
    options = dict(zip(("kernel_size", "stride", "padding"), node.args[1:], strict=False))
    try:
        pool = nn.MaxPool2d(**{**options, **node.kwargs})  # type: ignore[arg-type]
    except TypeError as error:
        raise Unknown(
            "the function 'max_pool2d' is called with options that have no rule"
        ) from error
    return layers.max_pool(pool)


def program(model: nn.Module, weights: State, buffers: State) -> list[Line]:
    """The model's lines; Unknown, with the reason, where the general path must do.

    The weights and buffers are those of all victims, or all have a leading axis of sets.
    """
    try:
        return _Reader(model, weights, buffers).read()
    except Unknown:
        raise
    except Exception as error:  # tracing runs the model's own Python code
        raise Unknown(f"its Python code cannot be traced: {error}") from error
