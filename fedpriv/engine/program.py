"""A module as a list of rules, if the explicit engine knows all its layers."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd

from fedpriv.engine import activations
from fedpriv.engine.activations import activation
from fedpriv.engine.convolution import Convolution, Geometry
from fedpriv.engine.dense import Dense
from fedpriv.engine.folding import folded
from fedpriv.engine.normalising import Normalise, Scaled, Shape, Standardise
from fedpriv.engine.rules import Identity, LinearMap, MaxPool, Product, Reshape, Rule, Sum
from fedpriv.state import State


class Unknown(Exception):
    """A layer or a pattern for which there is no rule; the general path takes it."""


@dataclass(frozen=True, eq=False)
class Line:
    """One rule, the slots it reads, and the way of its gradients home.

    Slot 0 is x; line i writes slot i + 1. `deep` slots depend on parameters before them: only they
    need dL/da in the first backward pass.
    """

    rule: Rule
    reads: tuple[int, ...]
    deep: bool
    names: dict[str, str]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _global_mean(a: Tensor) -> Tensor:
    return a.mean((2, 3), keepdim=True)


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


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.Hardsigmoid) or super().is_leaf_module(m, module_qualified_name)


class _Reader:
    """Walks a traced graph once; raises Unknown at the first node it cannot take."""

    def __init__(self, model: nn.Module, weights: State, buffers: State) -> None:
        self.weights, self.buffers = weights, buffers
        self.graph = _Tracer().trace(model)
        self.modules = dict(model.named_modules())
        self.lines: list[Line] = []
        self.slots: dict[fx.Node, int] = {}
        self.deep: list[bool] = [False]
        self.sizes: set[fx.Node] = set()
        self.used: set[str] = set()

    def add(self, node: fx.Node, rule: Rule, reads: list[fx.Node], **more: Any) -> None:
        slots = tuple(self.slots[read] for read in reads)
        deep = any(self.deep[slot] for slot in slots)
        line = Line(rule, slots, deep, more.get("names", {}))
        self.lines.append(line)
        self.deep.append(deep or bool(line.names))
        self.slots[node] = len(self.lines)

    def owned(self, path: str, **roles: str) -> dict[str, str]:
        """The parameters of a module that exist, by role; each may be used once."""
        found = {
            role: f"{path}.{name}" if path else name
            for role, name in roles.items()
            if (f"{path}.{name}" if path else name) in self.weights
        }
        if self.used & set(found.values()):
            raise Unknown(f"'{path}' is used twice")
        self.used |= set(found.values())
        return found

    def read(self) -> list[Line]:
        for node in self.graph.nodes:
            if node in self.slots:
                continue
            if node.op == "placeholder":
                if self.slots:
                    raise Unknown("the model takes several inputs")
                self.slots[node] = 0
            elif node.op == "call_module":
                self.module(node, str(node.target), self.modules[str(node.target)])
            elif node.op in ("call_function", "call_method"):
                self.function(node)
            elif node.op == "output":
                last = node.args[0]
                if not isinstance(last, fx.Node) or self.slots.get(last) != len(self.lines):
                    raise Unknown("the output is not the last layer")
            else:
                raise Unknown(f"'{node.target}' ({node.op}) has no rule")
        if unused := self.weights.keys() - self.used:
            raise Unknown(f"'{min(unused)}' is not a layer's parameter")
        return self.lines

    def module(self, node: fx.Node, path: str, module: nn.Module) -> None:
        source = [value for value in node.args if isinstance(value, fx.Node)]
        if type(module) is nn.Conv2d:
            self.convolution(node, path, module)
        elif type(module) is nn.Linear:
            names = self.owned(path, weight="weight", bias="bias")
            bias = self.weights.get(names.get("bias", ""))
            self.add(node, Dense(self.weights[names["weight"]], bias), source, names=names)
        elif isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1):
            self.add(node, Reshape(), source)
        elif isinstance(module, nn.Identity | _DropoutNd):
            if isinstance(module, _DropoutNd) and module.training:
                raise Unknown(f"dropout '{path}' is on")
            self.add(node, Identity(), source)
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            self.batch_norm(node, path, module, source)
        elif isinstance(module, nn.GroupNorm):
            groups = module.num_groups
            names = self.owned(path, gamma="weight", beta="bias")
            self.normalised(node, source, Normalise(_groups(groups), (2,), module.eps), names)
        elif isinstance(module, nn.LayerNorm):
            names = self.owned(path, gamma="weight", beta="bias")
            rule = Normalise(_trailing(len(module.normalized_shape)), (1,), module.eps)
            self.normalised(node, source, rule, names, tuple(module.normalized_shape))
        else:
            self.add(node, _simple(module, path), source)

    def normalised(
        self,
        node: fx.Node,
        source: list[fx.Node],
        rule: Rule,
        names: dict[str, str],
        trailing: tuple[int, ...] = (),
    ) -> None:
        """A normalisation, and the scale and shift behind it if there are any."""
        self.add(node, rule, source)
        if "gamma" not in names:
            return
        gamma, beta = self.weights[names["gamma"]], self.weights.get(names.get("beta", ""))
        shape = trailing or tuple(gamma.shape[-1:])
        flat = [None if part is None else part.flatten(-len(shape)) for part in (gamma, beta)]
        assert flat[0] is not None
        self.add(node, Scaled(flat[0], flat[1], shape, bool(trailing)), [node], names=names)

    def batch_norm(
        self,
        node: fx.Node,
        path: str,
        module: nn.BatchNorm1d | nn.BatchNorm2d,
        source: list[fx.Node],
    ) -> None:
        names = self.owned(path, gamma="weight", beta="bias")
        if _of_the_batch(module):
            self.normalised(node, source, Normalise(_per_channel, (1, 3), module.eps), names)
            return
        mean, var = (self.buffers[f"{path}.running_{of}"] for of in ("mean", "var"))
        self.normalised(node, source, Standardise(mean, (var + module.eps).sqrt()), names)

    def convolution(self, node: fx.Node, path: str, module: nn.Conv2d) -> None:
        if isinstance(module.padding, str) or module.padding_mode != "zeros":
            raise Unknown(f"the padding of '{path}' has no rule")
        geometry = Geometry(
            _pair(module.stride), _pair(module.padding), _pair(module.dilation), module.groups
        )
        names = self.owned(path, weight="weight", bias="bias")
        weight, bias = self.weights[names["weight"]], self.weights.get(names.get("bias", ""))
        source = [value for value in node.args if isinstance(value, fx.Node)]
        norm = next(iter(node.users)) if len(node.users) == 1 else None
        after = self.modules.get(str(norm.target)) if norm and norm.op == "call_module" else None
        if not isinstance(after, nn.BatchNorm2d) or _of_the_batch(after):
            self.add(node, Convolution(weight, bias, geometry), source, names=names)
            return
        assert norm is not None
        where = str(norm.target)
        names |= self.owned(where, gamma="weight", beta="bias")
        mean, var = (self.buffers[f"{where}.running_{of}"] for of in ("mean", "var"))
        whole = folded(names, self.weights, mean, var, after.eps)
        rule = Convolution(whole.kernel, whole.bias, geometry, whole.unfold)
        self.add(node, rule, source, names=names)
        self.slots[norm] = self.slots[node]

    def function(self, node: fx.Node) -> None:
        inputs = [value for value in node.all_input_nodes if value not in self.sizes]
        target = node.target
        if target in ("size", "dim") or (
            target in (operator.getitem, getattr) and node.args[0] in self.sizes
        ):
            self.sizes.add(node)
            return
        if target is getattr and node.args[1] == "shape":
            self.sizes.add(node)
            return
        if target in (torch.flatten, "flatten", "view", "reshape") and _flattens(node):
            self.add(node, Reshape(), inputs)
        elif target in _FUNCTIONS and _plain(node):
            both = [v for v in node.args if isinstance(v, fx.Node)]
            self.add(node, _FUNCTIONS[target], both)
        elif target in _SCALING and len(inputs) == 1 and node.args[0] is inputs[0]:
            self.add(node, LinearMap(_called(node)), inputs)
        elif getattr(target, "__name__", "") == "stochastic_depth" and not _training(node):
            self.add(node, Identity(), inputs)
        elif target in _LINEAR and len(inputs) == 1 and node.args[0] is inputs[0]:
            self.add(node, LinearMap(_called(node)), inputs)
        elif target in (F.max_pool2d, torch.max_pool2d) and len(inputs) == 1:
            options = dict(zip(("kernel_size", "stride", "padding"), node.args[1:], strict=False))
            try:
                pool = nn.MaxPool2d(**{**options, **node.kwargs})  # type: ignore[arg-type]
            except TypeError as error:
                raise Unknown(
                    "the function 'max_pool2d' is called with options that have no rule"
                ) from error
            self.add(node, _simple(pool, node.name), inputs)
        else:
            raise Unknown(f"the function '{getattr(target, '__name__', target)}' has no rule")


def _of_the_batch(module: nn.BatchNorm1d | nn.BatchNorm2d) -> bool:
    """Whether a BatchNorm takes the statistics of the batch, not those it has kept."""
    return module.training or module.running_mean is None


def _groups(count: int) -> Shape:
    return lambda shape, victims: (shape[0], count, -1)


def _trailing(axes: int) -> Shape:
    return lambda shape, victims: (-1, prod(shape[-axes:]))


def _per_channel(shape: torch.Size, victims: int) -> tuple[int, ...]:
    return (victims, shape[0] // victims, shape[1], prod(shape[2:]))


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
    return lambda a: target(a, *args, **kwargs)


def _simple(module: nn.Module, path: str) -> Rule:
    """The rule of a module without parameters."""
    if (rule := activation(module)) is not None:
        return rule
    if isinstance(module, nn.MaxPool2d) and not module.return_indices:
        stride = _pair(module.stride if module.stride is not None else module.kernel_size)
        kernel, padding = _pair(module.kernel_size), _pair(module.padding)
        return MaxPool(kernel, stride, padding, _pair(module.dilation), module.ceil_mode)
    if isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1)):
        return LinearMap(_global_mean)
    if isinstance(module, nn.AvgPool2d | nn.AdaptiveAvgPool2d | nn.ZeroPad2d):
        return LinearMap(module.forward)
    raise Unknown(f"{type(module).__name__} '{path}' has no rule")


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
