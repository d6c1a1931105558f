"""Was this sample in the training set? Scores from public models and from updates, no shadows.

A score is a pure function of signals: (T, M) losses under T public models, (R, K, M) losses under
what K clients sent back in R rounds, and inner products of a candidate's gradient with updates.
Values of a round in which a client did not take part are nan, and are left out.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.special import ndtr

from fedpriv.attacks.inference.series import Series
from fedpriv.errors import BadObservation
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.inferences import RIGHT, Members
from fedpriv.progress import Progress, go_on

Score = Callable[[Series, Candidates], Tensor]  # (M,), higher for members
TINY = 1e-12


def confidence(loss: Tensor) -> Tensor:
    """log p − log(1 − p) of the true class, which is close to normal over models (LiRA).

    p = exp(−loss), so that 1 − p = −expm1(−loss), exact also where p is almost 1.
    """
    return -loss - (-torch.expm1(-loss.double())).clamp_min(TINY).log().to(loss.dtype)


def cosine(products: Tensor, squares: Tensor, sizes: Tensor) -> Tensor:
    """⟨g, −Δ⟩ / (‖g‖ ‖Δ‖): a sample that was trained on leaves its gradient in the update."""
    return products * (squares * sizes).clamp_min(TINY**2).rsqrt()


def difference(products: Tensor, squares: Tensor, scale: Tensor) -> Tensor:
    """‖Δ‖² − ‖Δ − s·g‖² = 2s⟨g, −Δ⟩ − s²‖g‖²: how much of the update a sample explains.

    s is the step that one sample's gradient takes in the update (Li et al. 2022).
    """
    return 2 * scale * products - scale.square() * squares


def against_others(signal: Tensor, suspect: Tensor) -> Tensor:
    """(M,) the mean over rounds of Φ((own − mean of others) / spread of others) (FedMIA eq. 5).

    signal: (R, K, M); suspect: (M,) places of clients. What the other clients' updates say of a
    candidate is the world in which the suspect did not train on it.
    """
    signal = signal.double()
    own = at(signal, suspect)
    others = signal.clone()
    others.scatter_(1, suspect.expand(len(signal), 1, -1), torch.nan)
    count = others.isfinite().sum(1)
    mean = others.nansum(1) / count
    spread = ((others - mean.unsqueeze(1)).square().nansum(1) / count).sqrt()
    return mean_over(ndtr((own - mean) / spread.clamp_min(TINY)), count > 1)


def at(signal: Tensor, suspect: Tensor) -> Tensor:
    """(R, M) the signal of each candidate's own suspect."""
    return signal.gather(1, suspect.expand(len(signal), 1, -1))[:, 0]


def mean_over(values: Tensor, known: Tensor | None = None) -> Tensor:
    """(M,) the mean over rounds of what is known."""
    known = values.isfinite() if known is None else known & values.isfinite()
    return values.where(known, 0).sum(0) / known.sum(0).clamp_min(1)


def signal_of(seen: Series, about: Candidates, name: str) -> Tensor:
    """(R, K, M) one of the signals that updates give, by name."""
    if name == "loss":
        return -seen.own_losses(about)
    if name == "confidence":
        return confidence(seen.own_losses(about))
    products, squares = seen.products(about), seen.squares(about)
    if name == "cosine":
        return cosine(products, squares, seen.sizes())
    return difference(products, squares, steps_of(seen))


def own_signal(seen: Series, about: Candidates, name: str) -> Tensor:
    """(M,) the signal of each candidate's own suspect, in the mean over rounds."""
    if name == "loss":
        return mean_over(-seen.suspects_losses(about))
    if name == "confidence":
        return mean_over(confidence(seen.suspects_losses(about)))
    return mean_over(at(signal_of(seen, about, name), seen.suspects(about)))


def steps_of(seen: Series) -> Tensor:
    """(R, K, 1) the step that one sample's gradient takes in a client's update."""
    found = seen.unknown(1)
    for r, k, one in seen.places():
        times = one.local_steps * one.batch_size / max(1, one.num_examples)
        found[r, k] = one.lr * max(1.0, times) / one.batch_size
    return found


@dataclass(frozen=True)
class Membership:
    """Scores of all candidates from one series, as a claim about the whole federation."""

    score: Score
    candidates: Candidates

    def __call__(self, seen: Series, progress: Progress = go_on) -> Members:
        started = time.perf_counter()
        scores = self.score(seen, self.candidates)
        if not torch.isfinite(scores).all():
            raise BadObservation(
                "Some candidates have no finite score: the models that were seen do not fit them."
            )
        return Members(
            scores=scores.double()[None],
            names=(everybody(seen),),
            seconds=time.perf_counter() - started,
            found={RIGHT: seen.right(self.candidates)[None]},
        )


def everybody(seen: Series) -> str:
    """The name of a claim about all clients: that of a sum in the last round."""
    return f"{seen.rounds[-1]}-all"


def by_model(
    candidates: Candidates,
    *,
    signal: Literal["loss", "confidence"] = "loss",
    over: Literal["last", "all"] = "last",
) -> Membership:
    """Members have small losses: under the last public model, or under those of all rounds.

    Args:
        candidates: The samples that the attacker asks about.
        signal: What speaks for a member: a small loss, or a high logit of the true class.
        over: Look at the last public model, or at those of all rounds.
    """

    def score(seen: Series, about: Candidates) -> Tensor:
        loss = seen.public_losses(about)
        found = -loss if signal == "loss" else confidence(loss)
        return found[-1] if over == "last" else found.mean(0)

    return Membership(score, candidates)


def by_norm(candidates: Candidates) -> Membership:
    """Members have small gradients under the models that were sent (Nasr et al. 2019)."""

    def score(seen: Series, about: Candidates) -> Tensor:
        return -mean_over(at(seen.squares(about), seen.suspects(about)).clamp_min(TINY).log())

    return Membership(score, candidates)


def by_update(
    candidates: Candidates,
    *,
    signal: Literal["cosine", "difference", "loss", "confidence"] = "cosine",
) -> Membership:
    """What the suspect's own updates say of a candidate, averaged over rounds.

    Args:
        candidates: The samples that the attacker asks about.
        signal: What is compared: loss, confidence (logit of the true class), the angle between
            gradient and update, or how much of the update the gradient explains.
    """

    def score(seen: Series, about: Candidates) -> Tensor:
        return own_signal(seen, about, signal)

    return Membership(score, candidates)


def by_others(
    candidates: Candidates,
    *,
    signal: Literal["cosine", "difference", "loss", "confidence"] = "cosine",
) -> Membership:
    """The suspect's signal against that of all other clients, over all rounds (FedMIA).

    Args:
        candidates: The samples that the attacker asks about.
        signal: What is compared: loss, confidence (logit of the true class), the angle between
            gradient and update, or how much of the update the gradient explains.
    """

    def score(seen: Series, about: Candidates) -> Tensor:
        if len(seen.nodes) < 3:
            raise BadObservation(
                f"FedMIA compares a client with at least two others; {len(seen.nodes)} were seen."
            )
        return against_others(signal_of(seen, about, signal), seen.suspects(about))

    return Membership(score, candidates)


def matched(candidates: Candidates) -> Membership:
    """Σ⟨g, −Δ⟩ / √Σ‖g‖² over rounds: the best linear test when noise of one scale was added.

    A cosine divides each round by the size of its update, which is mostly noise.
    """

    def score(seen: Series, about: Candidates) -> Tensor:
        who = seen.suspects(about)
        products, squares = at(seen.products(about), who), at(seen.squares(about), who)
        return products.nansum(0) * squares.nansum(0).clamp_min(TINY).rsqrt()

    return Membership(score, candidates)


def on_shared(candidates: Candidates) -> Membership:
    """The difference over the entries that the suspect shared, where the others were pruned."""

    def score(seen: Series, about: Candidates) -> Tensor:
        found = difference(seen.products(about), seen.shared_squares(about), steps_of(seen))
        return mean_over(at(found, seen.suspects(about)))

    return Membership(score, candidates)
