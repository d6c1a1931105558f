"""The explicit engine for a network, if it can be trusted.

If not, one warning says why and what it costs.
"""

import logging

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedpriv.engine.explicit import Explicit
from fedpriv.engine.gradients import dense, gradient_by_autograd
from fedpriv.engine.lines import Line, Unknown
from fedpriv.engine.program import program
from fedpriv.state import State

log = logging.getLogger(__name__)

_WRONG = (
    1e-6  # relative error of the whole gradient in double precision; rounding leaves about 1e-13
)
_checked: dict[object, str] = {}  # by structure: what is wrong with the passes, or nothing
_told: set[tuple[str, str]] = set()


def explicit_engine(
    model: nn.Module,
    weights: State,
    buffers: State,
    shape: tuple[int, ...],
    which: Tensor | None = None,
) -> Explicit | None:
    """The engine for this network, or None if a layer has no rule or the passes are not autograd's.

    With `which` (V,), weights and buffers have a leading axis of sets, and it says whose set is
    which.
    """
    try:
        lines = program(model, weights, buffers)
        _check(lines, model, weights, buffers, shape, which is not None)
    except Unknown as reason:
        _tell(type(model).__name__, str(reason))
        return None
    return Explicit(lines, tuple(weights), which=which)


def _check(
    lines: list[Line],
    model: nn.Module,
    weights: State,
    buffers: State,
    shape: tuple[int, ...],
    several: bool,
) -> None:
    """Unknown unless explicit passes give the gradients that autograd gives.

    It is found out once per structure and kind of device.
    It compares in double precision, so that a wrong rule is far above rounding and a right one far
    below, and the gradient as a whole, because single elements of it may be almost zero.
    """
    rules = tuple((type(line.rule).__name__, line.reads, line.deep) for line in lines)
    sizes = tuple((name, value.shape[several:]) for name, value in weights.items())
    where = next((value.device.type for value in weights.values()), "")
    name = type(model).__module__, type(model).__qualname__, repr(model)
    kind = (name, shape, rules, sizes, where)
    if kind not in _checked:
        first = [
            {name: (value[0] if several else value).double() for name, value in state.items()}
            for state in (weights, buffers)
        ]
        _checked[kind] = _wrong(model, first[0], first[1], shape)
    if _checked[kind]:
        raise Unknown(_checked[kind])


def _wrong(model: nn.Module, weights: State, buffers: State, shape: tuple[int, ...]) -> str:
    """What is wrong with the passes at two victims of random inputs; nothing if all is well.

    Both orders count: the gradient, and the derivative of a function of it by which an attack
    steps. The mean and deviation of two samples say next to nothing about a layer, so that a
    BatchNorm on the statistics of the batch gets more of them.
    """
    device = next(iter(weights.values())).device
    stream = torch.Generator().manual_seed(0)
    batch = 8 if any(isinstance(m, _BatchNorm) and m.training for m in model.modules()) else 2

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=stream, dtype=torch.float64).to(device)

    x = drawn(2, batch, *shape).requires_grad_()
    try:
        with torch.no_grad():
            classes = model(x[0].float()).shape[-1]
        t = drawn(2, batch, classes).softmax(2)
        engine = Explicit(program(model, weights, buffers), tuple(weights))
        rows = [gradient_by_autograd(model, weights, buffers, x[v], t[v]) for v in range(2)]
        theirs = {name: torch.stack([row[name] for row in rows]) for name in weights}
        ours = {name: dense(value) for name, value in engine.gradients_at(x, t).items()}
        along = {name: drawn(*value.shape) for name, value in theirs.items()}
        steps = []
        for found in (theirs, ours):
            total = torch.stack([(found[name] * along[name]).sum() for name in weights]).sum()
            steps.append(torch.autograd.grad(total, x)[0])
    except (RuntimeError, ValueError, IndexError) as error:
        return f"the explicit passes do not take inputs of shape {shape}: {error}"
    gaps = {name: (ours[name] - value).detach().norm() for name, value in theirs.items()}
    whole = torch.stack([value.detach().norm() for value in theirs.values()]).norm()
    if not torch.stack(list(gaps.values())).norm() <= _WRONG * whole:
        worst = max(gaps, key=lambda name: float(gaps[name].nan_to_num(torch.inf)))
        return f"the explicit passes disagree with autograd, most of all at '{worst}'"
    if not (steps[1] - steps[0]).norm() <= _WRONG * steps[0].norm():
        return "the second derivative of the explicit passes disagrees with autograd"
    return ""


def _tell(model: str, reason: str) -> None:
    """Say once per model and reason that the general path does the work."""
    if (model, reason) not in _told:
        _told.add((model, reason))
        log.warning(
            "%s: %s. Its gradients come from torch.func instead of the fast engine: an attack "
            "takes about 1.3 times as long for one victim, and up to 3 times as long for many.",
            model,
            reason,
        )
