"""What an update betrays about how it was made, without the truth."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from fedpriv.attacks.analytic.head import Head, head_of
from fedpriv.attacks.inversion.features import features_of
from fedpriv.attacks.preflight.finding import Finding
from fedpriv.attacks.preflight.model_checks import ADAPTIVE
from fedpriv.errors import BadObservation
from fedpriv.evidence.victims import Victims

_EPS = 1.2e-7  # of the float32 weights that were sent
_USUAL_SCALES = (0.5, 2.0)


def rounding(victims: Victims) -> float:
    """How much of the update is float32 rounding of the weights: ‖w‖·ε / ‖Δ‖."""
    size = torch.stack([v.double().square().sum() for v in victims.weights.values()]).sum().sqrt()
    moved = torch.stack([victims.delta[k].double().square().sum() for k in victims.weights])
    double = any(value.dtype == torch.float64 for value in victims.facts.received.values())
    return 0.0 if double else float(_EPS * size / moved.sum().sqrt().clamp_min(1e-300))


def sparsity(victims: Victims) -> Iterator[Finding]:
    """Zeros in every layer that silent units do not explain: pruning.

    A unit that was silent for all samples leaves a row of zeros in its own layer and a column in
    the next; an input that is zero leaves a column. Pruning leaves zeros between the others.
    """
    matrices = [victims.delta[k] for k in victims.weights if victims.delta[k].ndim > 2]
    shares = [scattered_zeros(value[0]) for value in matrices]
    if shares and min(shares) > 0.2:
        yield Finding(
            "sparsity",
            "warning",
            f"{100 * sum(shares) / len(shares):.0f} % of the update is exactly zero, in every "
            "layer: the client pruned it. Attacks that expect those values find less. The attack "
            "'pruning-aware' compares only what was sent.",
        )


def scattered_zeros(change: Tensor) -> float:
    """The share of zeros of a layer (out, in, …) without its rows and columns of zeros only."""
    moved = change.flatten(2).any(2) if change.ndim > 2 else change != 0
    rows, columns = moved.any(1), moved.any(0)
    kept = change[rows][:, columns]
    return float((kept == 0).double().mean()) if kept.numel() else 0.0


def adaptive(victims: Victims) -> Iterator[Finding]:
    """Elements of all layers moved about equally far, which gradients do not do by themselves.

    Only asked where nobody told the optimiser, or told another one.
    """
    if victims.facts.knows("optimiser") and victims.facts.optimiser in ADAPTIVE:
        return
    moves = torch.cat([victims.delta[key].flatten() for key in victims.weights]).abs()
    moves = moves[moves > 0]
    if len(moves) <= 10:
        return
    if float(moves.std() / moves.mean()) < 0.05:
        yield Finding(
            "optimiser",
            "warning",
            "all elements moved equally far: the optimiser (Adam?) kept little more than the "
            "signs of the gradient. Cosine attacks lose most of their detail.",
        )
    elif not victims.facts.knows("optimiser") and even_layers(victims):
        yield Finding(
            "optimiser",
            "warning",
            "the layers moved about equally far, whatever their size: the optimiser rescales its "
            "steps (Adam?). Tell which it is: --set optimiser=adam.",
        )


def even_layers(victims: Victims) -> bool:
    """Whether the typical step of every weight matrix is about the same."""
    sizes = [
        float(moved.abs().median())
        for key in victims.weights
        if victims.delta[key].ndim > 2
        and (moved := victims.delta[key][victims.delta[key] != 0]).numel()
    ]
    return len(sizes) > 1 and max(sizes) < 3 * min(sizes)


def head_checks(victims: Victims) -> Iterator[Finding]:
    """Checks of the head's gradient, by its rank, scale and size.

    For one sample it is δ ⊗ φ with δ = softmax(Wφ + b) − e_y.
    """
    facts, off = victims.facts, rounding(victims)
    if off > 0.1:
        yield _vanishing(
            f"{100 * min(off, 1):.0f} % of the update is float32 rounding of the weights"
        )
        return
    if not facts.knows("lr", "optimiser", "local_steps", "batch_size") or (
        facts.optimiser in ADAPTIVE
    ):
        return  # what follows is about plain steps of a known size
    try:
        head = head_of(victims)
    except BadObservation:
        return
    if head.bias is None or victims.slots != 1:
        yield from _reduction(victims, head)
        return
    weight, bias = head.weight[0].double(), head.bias[0].double()
    if not bias.any():
        yield _vanishing("the head's bias gradient is zero")
        return
    features = features_of(weight[None], bias[None])[0]
    rest = weight - torch.outer(bias, features)
    missing = float(rest.norm() / weight.norm())
    values = torch.linalg.svdvals(weight)
    more_than_one = missing > max(1e-3, 30 * off)
    if more_than_one and float(values[-1] / values[1]) > 0.1:
        sigma = float(rest.square().mean().sqrt())
        yield Finding(
            "noise",
            "warning",
            f"random noise of about {sigma:.2g} was added to every value of the update: the last "
            "layer's gradient has not the simple form that one sample gives it. Attacks that "
            "expect no noise find less. The attack 'noise-aware' averages it over rounds.",
        )
        return
    own, own_bias = _own_head(victims, head)
    expected = (own @ features + own_bias).softmax(0)
    label = int(bias.argmin())
    sure = float(expected[label])
    expected[label] -= 1
    scale = float(bias @ expected / expected.square().sum())
    alike = float(bias @ expected / (bias.norm() * expected.norm()))
    yield from _steps(victims, more_than_one, missing, scale)
    if not more_than_one and victims.facts.local_steps == 1 and alike > 0.99:
        yield from _scale(victims, scale)
    if sure > 0.97:
        yield _vanishing(f"the model already gives class {label} a probability of {sure:.3f}")


def _own_head(victims: Victims, head: Head) -> tuple[Tensor, Tensor]:
    prefix = f"{head.path}." if head.path else ""
    pair = [victims.weights[f"{prefix}{part}"] for part in ("weight", "bias")]
    weight, bias = (value if victims.shared else value[0] for value in pair)
    return weight.double(), bias.double()


def _vanishing(why: str) -> Finding:
    return Finding(
        "converged",
        "fatal",
        f"the update is too small to attack: {why}. The model has learned this sample already, "
        "and hardly changes for it. Attack an earlier round.",
    )


def _steps(victims: Victims, drift: bool, missing: float, scale: float) -> Iterator[Finding]:
    told = victims.facts.local_steps
    if told == 1 and drift:
        yield Finding(
            "local-steps",
            "mismatch",
            f"about {max(2, round(scale))} local steps were taken where the facts say 1: one step "
            f"on one sample cannot make this gradient of the last layer ({missing:.1e} of it has "
            "another direction).",
        )
    elif told > 1 and not drift and abs(scale * told - 1) < 0.2:
        yield Finding(
            "local-steps",
            "mismatch",
            f"the update is that of a single step on one sample; the facts say {told}.",
        )


def _scale(victims: Victims, scale: float) -> Iterator[Finding]:
    if abs(scale - 1) < 0.02:
        return
    lr = victims.facts.lr
    usual = min(_USUAL_SCALES, key=lambda known: abs(known - scale))
    if abs(usual - scale) < 0.02 * usual:
        yield Finding(
            "loss-scale",
            "mismatch",
            f"the update is {scale:.3f} times what cross-entropy and lr {lr:g} give: the loss is "
            f"scaled by {usual:g} (or lr was {lr * scale:.3g}: one SGD step cannot tell). L2 "
            "attacks would look for the wrong thing; cosine ones do not care.",
        )
    else:
        yield Finding(
            "learning-rate",
            "mismatch",
            f"the update is {scale:.3g} times what lr {lr:g} gives: the learning rate was "
            f"{lr * scale:.3g} (or the loss "
            "is scaled). Record the right one, or use an attack that compares directions, such as "
            "'adam+cosine'.",
        )


def _reduction(victims: Victims, head: Head) -> Iterator[Finding]:
    """Cross-entropy averaged over a batch pushes logits up by at most one in all."""
    if head.bias is None:
        return
    if victims.facts.local_steps > 1 and victims.facts.momentum:
        return  # velocity adds up: a mean over steps may be larger than any of them
    up = float(-head.bias[0].clamp_max(0).sum())
    if up > 1.02:
        cause = "loss-scale" if up <= 1.02 * victims.slots else "learning-rate"
        yield Finding(
            cause,
            "mismatch",
            f"the gradient of the last layer's bias is {up:.3g} upwards in all, for a mean over "
            "the batch it is 1 at most: the loss is a sum over samples, or lr "
            f"{victims.facts.lr:g} is wrong.",
        )


def clipping(norms: Sequence[float]) -> Iterator[Finding]:
    """Updates of several clients with one norm were clipped to it."""
    if len(norms) >= 3 and max(norms) - min(norms) < 1e-3 * max(norms):
        yield Finding(
            "clipping",
            "warning",
            f"all {len(norms)} updates have the same length (norm {norms[0]:.4g}): they were "
            "clipped to it. Attacks that compare lengths find less; those that compare directions, "
            "such as 'adam+cosine', do not care.",
        )
