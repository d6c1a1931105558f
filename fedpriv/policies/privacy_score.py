"""S_pri: how reliably gradient matching leads from a random start to the transformed image."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from fedpriv.engine.gradients import Gradients, Outer, as_trained, gradients_at
from fedpriv.engine.trusted import explicit_engine

Reduction = Literal["global", "layer"]
Rule = Literal["left", "trapezoid"]
GradientOf = Callable[[Tensor, Tensor], Gradients]  # (R, C, H, W), (R,) -> (R, …) per parameter

VANISHED = 1e-30  # norms below it, multiplied, are no gradients any more
ROWS = 32  # gradients at once: more fall out of the cache and gain nothing


def sample_gradients(model: nn.Module, shape: tuple[int, ...]) -> GradientOf:
    """One gradient per sample, in eval mode: by explicit passes if the model's layers have them."""
    model = as_trained(model, "eval")
    weights = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.detach() for name, value in model.named_buffers()}
    engine = explicit_engine(model, weights, buffers, shape)
    device = next(iter(weights.values())).device
    classes = model(torch.zeros(1, *shape, device=device)).shape[-1]

    @torch.no_grad()
    def gradients(x: Tensor, y: Tensor) -> Gradients:
        t = one_hot(y, classes).to(x.dtype)[:, None]
        if engine is not None:
            return engine.gradients_at(x[:, None], t)
        return gradients_at(model, weights, buffers, True, x[:, None], t)

    return gradients


def picked(found: Gradients, rows: Tensor | slice) -> Gradients:
    """The gradients of some of the samples."""
    return {name: values[rows] for name, values in found.items()}


def stacked(parts: Sequence[Gradients]) -> Gradients:
    """The gradients of all samples of several calls."""

    def joined(values: list[Tensor | Outer]) -> Tensor | Outer:
        outer = [value for value in values if isinstance(value, Outer)]
        if outer:
            return Outer(
                torch.cat([value.rows for value in outer]),
                torch.cat([value.columns for value in outer]),
            )
        return torch.cat([value for value in values if isinstance(value, Tensor)])

    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def _inner(a: Tensor | Outer, b: Tensor | Outer) -> Tensor:
    """⟨a, b⟩ by row; an outer product of one sample never becomes a matrix."""
    if isinstance(a, Outer) and isinstance(b, Outer):
        return (a.rows * b.rows).sum((1, 2)) * (a.columns * b.columns).sum((1, 2))
    assert isinstance(a, Tensor) and isinstance(b, Tensor)
    found: Tensor = torch.linalg.vecdot(a.flatten(1), b.flatten(1))
    return found


def _cosine(dot: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """⟨a, b⟩/(‖a‖‖b‖) from their squares; 0 where one of them vanishes.

    Squares of a confident model's gradients are so small that their product would underflow.
    """
    sizes = own.sqrt() * other.sqrt()
    return (dot / sizes.clamp_min(VANISHED)).clamp(-1, 1).where(sizes > VANISHED, 0)


def _along(found: Tensor | Outer, first: Tensor | Outer, images: int) -> tuple[Tensor, Tensor]:
    """⟨g_j, g_K⟩ and ‖g_j‖² for the points j = 0 … K of each image's way, (B, K + 1) each.

    Products with the last point are one matrix product per image, so that its gradient is not
    copied for every point.
    """
    if isinstance(found, Outer):
        assert isinstance(first, Outer)
        parts = [_along(f[:, 0], o[:, 0], images) for f, o in zip(found, first, strict=True)]
        return parts[0][0] * parts[1][0], parts[0][1] * parts[1][1]
    assert isinstance(first, Tensor)
    onwards = found.view(images, -1, found[0].numel())
    last, begin = onwards[:, -1:], first.reshape(images, 1, -1)
    dots = [torch.bmm(part, last.mT).squeeze(2) for part in (begin, onwards)]
    squares = [torch.linalg.vecdot(part, part) for part in (begin, onwards)]
    return torch.cat(dots, 1), torch.cat(squares, 1)


def similarities(
    found: Gradients, first: Gradients, images: int, reduction: Reduction = "global"
) -> Tensor:
    """`similarity` of the points 0 … K of each image's way with the last one, (B, K + 1).

    `found` has the gradients at the points 1 … K of all images, `first` those at the starts.
    """
    pairs = [_along(found[name], first[name], images) for name in found]
    dot, own = (torch.stack(part) for part in zip(*pairs, strict=True))
    if reduction == "global":
        dot, own = dot.sum(0, keepdim=True), own.sum(0, keepdim=True)
    return _cosine(dot, own, own[..., -1:]).mean(0)


def curve(
    gradients: GradientOf,
    start: Tensor,
    target: Tensor,
    y: Tensor,
    points: int = 10,
    reduction: Reduction = "global",
    at_start: Gradients | None = None,
) -> Tensor:
    """GradSim(x'(j/K), T(x)) for j = 0 … K, (B, K + 1), along the straight line of ATS eq. 6.

    `at_start` are the gradients at `start`, if known: they depend on no policy.
    """
    shares = torch.arange(1, points + 1, dtype=target.dtype, device=target.device) / points
    shares = shares.view(1, -1, *[1] * (target.ndim - 1))
    several = max(1, ROWS // points)
    curves = []
    for rows in torch.arange(len(target), device=target.device).split(several):
        x0, x, labels = start[rows], target[rows], y[rows]
        path = torch.lerp(x0[:, None], x[:, None], shares).flatten(0, 1)  # its last point is x
        found = gradients(path, labels.repeat_interleave(points))
        first = gradients(x0, labels) if at_start is None else picked(at_start, rows)
        curves.append(similarities(found, first, len(x), reduction))
    return torch.cat(curves)


def area(curve: Tensor, rule: Rule = "left") -> Tensor:
    """The area under each curve (B, K + 1): ATS eq. 7, or the released code's trapezoids."""
    if rule == "left":
        return curve[:, :-1].mean(1)
    return ((curve[:, :-1] + curve[:, 1:]) / 2).mean(1)
