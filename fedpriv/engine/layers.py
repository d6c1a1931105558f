"""The lines of each kind of layer."""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from fedpriv.engine.activations import activation
from fedpriv.engine.convolution import Convolution
from fedpriv.engine.dense import Dense
from fedpriv.engine.folding import folded
from fedpriv.engine.geometry import Geometry
from fedpriv.engine.lines import Lines, Unknown
from fedpriv.engine.local import Local
from fedpriv.engine.normalising import Normalise, Scaled, Shape, Standardise
from fedpriv.engine.rules import AvgPool, Identity, LinearMap, MaxPool, Reshape, Rule

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d


def pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def dense(lines: Lines, slot: int, path: str, weight: str = "weight", bias: str = "bias") -> int:
    """A linear layer."""
    names = lines.owned(path, weight=weight, bias=bias)
    rule = Dense(lines.weights[names["weight"]], lines.weights.get(names.get("bias", "")))
    return lines.add(rule, [slot], names)


def convolution(
    lines: Lines,
    slot: int,
    path: str,
    module: nn.Conv2d,
    norm: tuple[str, nn.BatchNorm2d] | None = None,
) -> int:
    """A convolution, and the BatchNorm behind it if it can be folded in."""
    if isinstance(module.padding, str) or module.padding_mode != "zeros":
        raise Unknown(f"the padding of '{path}' has no rule")
    geometry = Geometry(
        pair(module.stride), pair(module.padding), pair(module.dilation), module.groups
    )
    names = lines.owned(path, weight="weight", bias="bias")
    if norm is None:
        weight, bias = (lines.weights.get(names.get(role, "")) for role in ("weight", "bias"))
        assert weight is not None
        return lines.add(Convolution(weight, bias, geometry), [slot], names)
    where, module_after = norm
    names |= lines.owned(where, gamma="weight", beta="bias")
    mean, var = _kept(lines, where)
    whole = folded(names, lines.weights, mean, var, module_after.eps)
    rule = Convolution(whole.kernel, whole.bias, geometry, whole.unfold)
    return lines.add(rule, [slot], names)


def of_the_batch(module: BatchNorm) -> bool:
    """Whether a BatchNorm takes the statistics of the batch, not those it has kept."""
    return module.training or module.running_mean is None


def batch_norm(lines: Lines, slot: int, path: str, module: BatchNorm) -> int:
    names = lines.owned(path, gamma="weight", beta="bias")
    if of_the_batch(module):
        return _normalised(lines, slot, Normalise(_per_channel, (1, 3), module.eps), names)
    mean, var = _kept(lines, path)
    return _normalised(lines, slot, Standardise(mean, (var + module.eps).sqrt()), names)


def group_norm(lines: Lines, slot: int, path: str, module: nn.GroupNorm) -> int:
    names = lines.owned(path, gamma="weight", beta="bias")
    rule = Normalise(_groups(module.num_groups), (2,), module.eps)
    return _normalised(lines, slot, rule, names)


def layer_norm(lines: Lines, slot: int, path: str, module: nn.LayerNorm) -> int:
    names = lines.owned(path, gamma="weight", beta="bias")
    shape = tuple(module.normalized_shape)
    rule = Normalise(_trailing(len(shape)), (1,), module.eps)
    return _normalised(lines, slot, rule, names, shape)


def plain(lines: Lines, slot: int, path: str, module: nn.Module) -> int:
    """A layer without parameters."""
    if any(True for _ in module.parameters()) or any(True for _ in module.buffers()):
        raise Unknown(f"{type(module).__name__} '{path}' has no rule")
    return lines.add(_simple(module, path), [slot])


def max_pool(module: nn.MaxPool2d) -> MaxPool:
    stride = pair(module.stride if module.stride is not None else module.kernel_size)
    kernel, padding = pair(module.kernel_size), pair(module.padding)
    return MaxPool(kernel, stride, padding, pair(module.dilation), module.ceil_mode)


def _simple(module: nn.Module, path: str) -> Rule:
    if (rule := activation(module)) is not None:
        return rule
    if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) == (1, -1):
        return Reshape()
    if isinstance(module, nn.Identity | _DropoutNd):
        if isinstance(module, _DropoutNd) and module.training:
            raise Unknown(f"dropout '{path}' is on")
        return Identity()
    if isinstance(module, nn.MaxPool2d) and not module.return_indices:
        return max_pool(module)
    if isinstance(module, nn.AdaptiveAvgPool2d) and module.output_size in (1, (1, 1)):
        return LinearMap(_global_mean)
    if isinstance(module, nn.AvgPool2d) and module.divisor_override is None:
        stride = pair(module.stride if module.stride is not None else module.kernel_size)
        kernel, padding = pair(module.kernel_size), pair(module.padding)
        return AvgPool(kernel, stride, padding, module.ceil_mode, module.count_include_pad)
    if isinstance(module, nn.AdaptiveAvgPool2d | nn.ZeroPad2d):
        return LinearMap(module.forward)
    if getattr(module, "inplace", False):
        raise Unknown(f"{type(module).__name__} '{path}' changes its input and has no rule")
    return Local(module.forward)


def _global_mean(a: Tensor) -> Tensor:
    return a.mean((2, 3), keepdim=True)


def _kept(lines: Lines, path: str) -> tuple[Tensor, Tensor]:
    """The mean and variance that a BatchNorm has kept."""
    return lines.buffers[f"{path}.running_mean"], lines.buffers[f"{path}.running_var"]


def _normalised(
    lines: Lines, slot: int, rule: Rule, names: dict[str, str], trailing: tuple[int, ...] = ()
) -> int:
    """A normalisation, and the scale and shift behind it if there are any."""
    slot = lines.add(rule, [slot])
    if "gamma" not in names:
        return slot
    gamma, beta = lines.weights[names["gamma"]], lines.weights.get(names.get("beta", ""))
    shape = trailing or tuple(gamma.shape[-1:])
    flat = beta if beta is None else beta.flatten(-len(shape))
    rule = Scaled(gamma.flatten(-len(shape)), flat, shape, bool(trailing))
    return lines.add(rule, [slot], names)


def _groups(count: int) -> Shape:
    return lambda shape, victims: (shape[0], count, -1)


def _trailing(axes: int) -> Shape:
    return lambda shape, victims: (-1, prod(shape[-axes:]))


def _per_channel(shape: torch.Size, victims: int) -> tuple[int, ...]:
    return (victims, shape[0] // victims, shape[1], prod(shape[2:]))
