"""How alike features are, and how well they tell persons apart (ARL tables 1-3)."""

from torch import Tensor
from torch.nn.functional import cosine_similarity as cosine

from fedpriv.errors import BadInput


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    """Of each pair of features, (N,): face and feature similarity of ARL table 1."""
    if a.shape != b.shape:
        raise BadInput(f"Features of shape {tuple(a.shape)} and {tuple(b.shape)} are no pairs.")
    return cosine(a.detach().flatten(1).double(), b.detach().flatten(1).double(), dim=1)


def scatter(features: Tensor, identities: Tensor) -> tuple[float, float]:
    """Within-class variance S_w and between-class variance S_b (ARL table 3).

    S_w is the mean squared distance of a feature from its identity's mean, S_b that of
    its identity's mean from the mean of all: together the total variance.
    """
    x = features.detach().flatten(1).double()
    if len(x) != len(identities) or not len(x):
        raise BadInput(f"{len(x)} features need as many identities, got {len(identities)}.")
    _, place, counts = identities.unique(return_inverse=True, return_counts=True)
    means = x.new_zeros(len(counts), x.shape[1]).index_add_(0, place, x)
    means /= counts[:, None]
    within = (x - means[place]).square().sum(dim=1).mean()
    between = (means[place] - x.mean(dim=0)).square().sum(dim=1).mean()
    return float(within), float(between)


def lda_score(features: Tensor, identities: Tensor) -> float:
    """S_b / S_w (ARL table 3): low when persons cannot be told apart; infinite without S_w."""
    within, between = scatter(features, identities)
    if within == 0:
        return float("inf") if between > 0 else 0.0
    return between / within
