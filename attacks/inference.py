"""Was this sample in the training set? Scores from the global model, over rounds and against references."""

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


def likelihood_ratio(
    target: Tensor, outside: Tensor, inside: Tensor | None = None, floor: float = 1e-3
) -> Tensor:
    """(M,) LiRA: how much likelier each sample's confidence is if it was trained on.

    target: (M,) or (rounds, M) from the model under attack; outside: (N, …) the same from N reference
    models that never saw the sample; inside: (N', …) from models that did (the online attack). Without it, how
    far the target lies above the outside models (the offline attack). Rounds add up.
    """
    if outside.ndim != target.ndim + 1 or len(outside) < 2:
        raise BadInput(
            f"references must be (N, {', '.join(map(str, target.shape))}) with N >= 2, got "
            f"{tuple(outside.shape)}."
        )
    score = -_log_normal(target, outside, floor)
    if inside is not None:
        score = score + _log_normal(target, inside, floor)
    else:
        score = (target - outside.mean(0)) / outside.std(0).clamp_min(floor)
    return score if score.ndim == 1 else score.sum(0)


def _log_normal(value: Tensor, sample: Tensor, floor: float) -> Tensor:
    spread = sample.std(0).clamp_min(floor)
    return -((value - sample.mean(0)) / spread).square() / 2 - spread.log()


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
