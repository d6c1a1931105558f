"""The explicit engine for a network, if it can be trusted.

If not, one warning says why and what it costs.
"""

import logging

import torch
from torch import Tensor, nn

from fedpriv.engine.explicit import Explicit
from fedpriv.engine.gradients import dense, gradients_at
from fedpriv.engine.program import Line, Unknown, program
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
    """Unknown unless explicit passes give the gradients that autograd gives; once per structure.

    It compares in double precision, so that a wrong rule is far above rounding and a right one far
    below, and the gradient as a whole, because single elements of it may be almost zero.
    """
    rules = tuple((type(line.rule).__name__, line.reads, line.deep) for line in lines)
    sizes = tuple((name, value.shape[several:]) for name, value in weights.items())
    kind = (type(model).__module__, type(model).__qualname__, repr(model), shape, rules, sizes)
    if kind not in _checked:
        first = [
            {name: (value[0] if several else value).double() for name, value in state.items()}
            for state in (weights, buffers)
        ]
        _checked[kind] = _wrong(model, first[0], first[1], shape)
    if _checked[kind]:
        raise Unknown(_checked[kind])


def _wrong(model: nn.Module, weights: State, buffers: State, shape: tuple[int, ...]) -> str:
    """What is wrong with the passes at two victims of two random inputs; nothing if all is well."""
    device = next(iter(weights.values())).device
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(2, 2, *shape, generator=stream, dtype=torch.float64).to(device)
    try:
        with torch.no_grad():
            classes = model(x[0].float()).shape[-1]
            t = torch.rand(2, 2, classes, generator=stream, dtype=torch.float64)
            t = (t / t.sum(2, keepdim=True)).to(device)
            engine = Explicit(program(model, weights, buffers), tuple(weights))
            ours = engine.gradients_at(x, t)
            theirs = gradients_at(model, weights, buffers, True, x, t)
    except (RuntimeError, ValueError, IndexError) as error:
        return f"the explicit passes do not take inputs of shape {shape}: {error}"
    gaps = {name: (dense(ours[name]) - value).norm() for name, value in theirs.items()}
    whole = torch.stack([value.norm() for value in theirs.values()]).norm()
    if torch.stack(list(gaps.values())).norm() <= _WRONG * whole:
        return ""
    worst = max(gaps, key=lambda name: float(gaps[name].nan_to_num(torch.inf)))
    return f"the explicit passes disagree with autograd, most of all at '{worst}'"


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
