"""Gradients of many victims at once, and how far two of them are apart."""

import copy
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, relu6
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fedpriv.state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outer:
    """A linear layer's weight gradients Σ_b rows_b ⊗ columns_b, kept as factors.

    rows: (V, B, out), columns: (V, B, in). Inner products need no (V, out, in) tensor.
    """

    rows: Tensor
    columns: Tensor

    def __getitem__(self, index: Tensor | slice) -> "Outer":
        """Those of some victims."""
        return Outer(self.rows[index], self.columns[index])

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.rows, self.columns))

    def dense(self) -> Tensor:
        """(V, out, in)."""
        return torch.einsum("vbo,vbi->voi", self.rows, self.columns)

    def inner(self, target: Tensor) -> Tensor:
        """⟨self, target⟩ per victim; target: (V, out, in)."""
        return (torch.bmm(self.rows, target) * self.columns).sum((1, 2))

    def square(self) -> Tensor:
        """‖self‖² per victim."""
        rows = torch.bmm(self.rows, self.rows.mT)
        return (rows * torch.bmm(self.columns, self.columns.mT)).sum((1, 2))


Gradients = Mapping[str, Tensor | Outer]
Distance = Callable[[Gradients, State], Tensor]  # (V, …) entries of both -> (V,)


def dense(values: Tensor | Outer) -> Tensor:
    return values.dense() if isinstance(values, Outer) else values


def inner(values: Tensor | Outer, target: Tensor) -> Tensor:
    """⟨values, target⟩ per victim."""
    if isinstance(values, Outer):
        return values.inner(target)
    found: Tensor = torch.linalg.vecdot(values.flatten(1), target.flatten(1))
    return found


def square(values: Tensor | Outer) -> Tensor:
    """‖values‖² per victim."""
    return values.square() if isinstance(values, Outer) else inner(values, values)


def l2(found: Gradients, target: State) -> Tensor:
    """The sum of squared differences (DLG; ATS eq. 1 with a Euclidean distance)."""
    terms = [(dense(found[key]) - target[key]).square().flatten(1).sum(1) for key in target]
    return torch.stack(terms).sum(0)


def l1(found: Gradients, target: State) -> Tensor:
    """The sum of absolute differences."""
    terms = [(dense(found[key]) - target[key]).abs().flatten(1).sum(1) for key in target]
    return torch.stack(terms).sum(0)


TINY = 1e-30  # keeps the cosine of a vanished gradient at 0 instead of NaN


def rate(own: Tensor, other: Tensor) -> Tensor:
    """1/(‖a‖‖b‖) from squared norms, each by itself: their product underflows for small ones."""
    return own.clamp_min(TINY).rsqrt() * other.clamp_min(TINY).rsqrt()


def cosine(found: Gradients, target: State) -> Tensor:
    """1 − the cosine similarity over all parameters together (ATS eq. 5)."""
    dot = torch.stack([inner(found[key], target[key]) for key in target]).sum(0)
    own = torch.stack([square(found[key]) for key in target]).sum(0)
    other = torch.stack([square(target[key]) for key in target]).sum(0)
    return 1 - dot * rate(own, other)


def layerwise_cosine(found: Gradients, target: State) -> Tensor:
    """The mean over parameters of 1 − cosine similarity (as the released ATS code averages)."""
    terms = [
        1 - inner(found[key], target[key]) * rate(square(found[key]), square(target[key]))
        for key in target
    ]
    return torch.stack(terms).mean(0)


def where_shared(distance: Distance) -> Distance:
    """`distance` over the elements that the update holds: pruned ones say nothing about x."""

    def masked(found: Gradients, target: State) -> Tensor:
        kept = {key: dense(found[key]) * (values != 0) for key, values in target.items()}
        return distance(kept, target)

    return masked


def soft(y: Tensor, classes: int) -> Tensor:
    """Labels as probabilities: class indices become one-hot, logits their softmax."""
    if y.is_floating_point():
        return y.softmax(-1)
    return nn.functional.one_hot(y, classes).float()


class Hardsigmoid(nn.Hardsigmoid):
    """nn.Hardsigmoid with a second derivative, which torch's own kernel does not have."""

    def forward(self, input: Tensor) -> Tensor:
        return relu6(input + 3) / 6


def as_trained(model: nn.Module, mode: Literal["train", "eval"]) -> nn.Module:
    """A copy that computes what clients compute in `mode`, without side effects.

    In train mode BatchNorm takes the statistics of the batch and keeps none. Dropout and stochastic
    depth are off: their draws are unknown to a server. An attack differentiates twice, so that
    layers without a second derivative are replaced by equal ones that have it.
    """
    model = copy.deepcopy(model).requires_grad_(False).train(mode == "train")
    skipped: tuple[type[nn.Module], ...] = (_DropoutNd, *_stochastic_depth())
    for module in list(model.modules()):
        for name, part in module.named_children():
            if type(part) is nn.Hardsigmoid:
                setattr(module, name, Hardsigmoid())
        if isinstance(module, _BatchNorm) and mode == "train":
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
        if isinstance(module, skipped):
            module.eval()
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


def _stochastic_depth() -> tuple[type[nn.Module], ...]:
    """torchvision's layer, where torchvision is loaded: it takes seconds, and brings the compiler.

    A model that has such a layer has loaded it.
    """
    operators = sys.modules.get("torchvision.ops")
    return () if operators is None else (operators.StochasticDepth,)


def loss_at(model: nn.Module, params: State, buffers: State, x: Tensor, t: Tensor) -> Tensor:
    """Cross-entropy of a batch `x` (B, …) against probabilities `t` (B, C), averaged over B.

    Attention takes torch's plain kernel: the fused ones cannot be differentiated twice.
    """
    with sdpa_kernel(SDPBackend.MATH):
        return cross_entropy(functional_call(model, {**params, **buffers}, (x,)), t)


def gradient_of(model: nn.Module, x: Tensor, y: Tensor) -> State:
    """The gradient of cross-entropy at the model's own weights, in its own mode."""
    params = {key: value.detach() for key, value in model.named_parameters()}
    buffers = {key: value.detach().clone() for key, value in model.named_buffers()}
    found: State = grad(lambda p: cross_entropy(functional_call(model, {**p, **buffers}, (x,)), y))(
        params
    )
    return found


def gradient_by_autograd(
    model: nn.Module, params: State, buffers: State, x: Tensor, t: Tensor
) -> State:
    """The gradient at `x` (B, …), `t` (B, C), differentiable where gradients are enabled.

    Parameters that depend on something, as those after a local step do, go on to do so.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        free = {
            key: value if again and value.requires_grad else value.detach().requires_grad_()
            for key, value in params.items()
        }
        loss = loss_at(model, free, buffers, x, t)
        found = torch.autograd.grad(
            loss, list(free.values()), create_graph=again, materialize_grads=True
        )
    return dict(zip(free, found, strict=True))


def gradients_at(
    model: nn.Module, params: State, buffers: State, shared: bool, x: Tensor, t: Tensor
) -> State:
    """One gradient per victim for any module: x (V, B, …), t (V, B, C) -> (V, …) each.

    `params` and `buffers` have a leading victim axis unless they are `shared`. One victim needs no
    vmap, which costs it a third of the time.
    """
    if len(x) == 1:
        own = [
            s if shared else {key: value[0] for key, value in s.items()} for s in (params, buffers)
        ]
        found = gradient_by_autograd(model, own[0], own[1], x[0], t[0])
        return {key: value.unsqueeze(0) for key, value in found.items()}

    def one(p: State, b: State, x: Tensor, t: Tensor) -> State:
        found: State = grad(lambda q: loss_at(model, q, b, x, t))(p)
        return found

    return per_victim(one, params, buffers, shared, x, t)


@functools.cache
def _tell_of_turns(reason: str) -> None:
    """Say once that victims are attacked in turn."""
    log.warning(
        "torch.func.vmap does not take this model (%s): its victims are attacked one after the "
        "other, and many of them gain nothing from being attacked together.",
        reason,
    )


def per_victim(
    one: Callable[[State, State, Tensor, Tensor], State],
    params: State,
    buffers: State,
    shared: bool,
    x: Tensor,
    t: Tensor,
) -> State:
    """`one` for each victim: at once by vmap, or in turn if the model's Python looks at values.

    For a single victim vmap has nothing to gain, and costs time.
    """
    axis = None if shared else 0
    if len(x) > 1:
        try:
            mapped = vmap(one, in_dims=(axis, axis, 0, 0), randomness="different")
            return mapped(params, buffers, x, t)
        except RuntimeError as error:
            _tell_of_turns(str(error).split("\n")[0])

    def row(state: State, v: int) -> State:
        return state if shared else {key: value[v] for key, value in state.items()}

    found = [one(row(params, v), row(buffers, v), x[v], t[v]) for v in range(len(x))]
    return {key: torch.stack([state[key] for state in found]) for key in found[0]}
