"""Was this sample in the training set? Scores from the global model, over several rounds.

A score may be compared with that of reference models.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fedpriv.errors import BadInput
from fedpriv.state import State


@torch.no_grad()
def losses(model: nn.Module, state: State, x: Tensor, y: Tensor, batch: int = 256) -> Tensor:
    """(M,) cross-entropy of each sample under one state of the model, in eval mode."""
    model = model.eval()
    return torch.cat(
        [
            cross_entropy(functional_call(model, state, (a,)), b, reduction="none")
            for a, b in zip(x.split(batch), y.split(batch), strict=True)
        ]
    )


def confidence(loss: Tensor) -> Tensor:
    """log p − log(1 − p) of the true class, which is close to normal over models (LiRA)."""
    chance = (-loss).exp().clamp(1e-7, 1 - 1e-7)
    return chance.log() - (1 - chance).log()


def threshold_scores(loss: Tensor) -> Tensor:
    """Members have small losses: −loss, to be compared with one threshold for all."""
    return -loss


def trajectory(model: nn.Module, states: Sequence[State], x: Tensor, y: Tensor) -> Tensor:
    """(rounds, M): the confidence in each sample after each round that the server saw."""
    if not states:
        raise BadInput("a trajectory needs the model of at least one round.")
    return torch.stack([confidence(losses(model, state, x, y)) for state in states])


def likelihood_ratio(target: Tensor, references: Tensor, trained_on: Tensor) -> Tensor:
    """(M,) LiRA: how much likelier each sample's confidence is if it was trained on.

    target: (M,) or (rounds, M) from the model under attack; references: (N, …) the same from N
    models of the attacker's own; trained_on: (N, M) which of these saw which sample. Where no
    reference saw a sample (the offline attack) the score is how far the target lies above those
    that did not. Spreads are pooled over samples, as few references cannot give one each. Rounds
    add up.
    """
    if references.shape[1:] != target.shape or trained_on.shape != (
        len(references),
        target.shape[-1],
    ):
        raise BadInput(
            f"for a target of shape {tuple(target.shape)} references must be (N, …) of it and "
            f"trained_on (N, {target.shape[-1]}), got {tuple(references.shape)} and "
            f"{tuple(trained_on.shape)}."
        )
    outside = (~trained_on).double()
    if not (outside.sum(0) >= 1).all() or outside.sum() <= target.shape[-1]:
        raise BadInput("every sample needs a reference that never saw it, and most of them two.")
    mean, spread = _normal(references, outside)
    score = (target - mean) / spread
    if (trained_on.sum(0) >= 1).all() and trained_on.sum() > target.shape[-1]:
        inside_mean, inside_spread = _normal(references, trained_on.double())
        closer = ((target - inside_mean) / inside_spread).square()
        score = (score.square() - closer) / 2 + (spread / inside_spread).log()
    return score if score.ndim == 1 else score.sum(0)


def _normal(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The mean per sample over the weighted models, and one spread for all samples of a round."""
    shape = (len(values), *[1] * (values.ndim - 2), values.shape[-1])
    weights = weights.view(shape)
    mean = (values * weights).sum(0) / weights.sum(0)
    squares = ((values - mean).square() * weights).sum((0, -1))
    freedom = weights.sum() - values.shape[-1]
    return mean, (squares / freedom).sqrt().clamp_min(1e-6).unsqueeze(-1)


def auc(scores: Tensor, members: Tensor) -> float:
    """The chance that a member scores above a non-member; ties count half."""
    inside, outside = scores[members], scores[~members]
    if not len(inside) or not len(outside):
        raise BadInput("the AUC needs members and non-members.")
    gaps = inside.unsqueeze(1) - outside.unsqueeze(0)
    return float((gaps > 0).double().mean() + 0.5 * (gaps == 0).double().mean())


def true_positives_at(scores: Tensor, members: Tensor, false_positives: float = 0.01) -> float:
    """The share of members found when this share of non-members is accused too."""
    outside = scores[~members].sort(descending=True).values
    allowed = int(false_positives * len(outside))
    return float((scores[members] > outside[min(allowed, len(outside) - 1)]).double().mean())
