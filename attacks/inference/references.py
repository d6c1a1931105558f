"""Was this sample in the training set? Compared with federations that the attacker trained itself.

Each of S shadow federations trained on some of the candidates and not on the others. A statistic
of a candidate, (M,), is compared with its values (S, M) where it was in, and where it was out.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.special import log_ndtr

from fedpriv.attacks.inference.membership import (
    confidence,
    everybody,
    mean_over,
    own_signal,
)
from fedpriv.attacks.inference.series import Series
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.inferences import RIGHT, Members
from fedpriv.progress import Progress, go_on

Statistic = Literal["confidence", "rounds", "own", "gain", "cosine", "difference"]
Rule = Callable[["References", Tensor], Tensor]  # references and what was seen -> scores
FLAT = 1e-6  # no spread is below this


def by_public(seen: Series, about: Candidates) -> Tensor:
    return confidence(seen.public_losses(about)[-1])


def by_all_public(seen: Series, about: Candidates) -> Tensor:
    return confidence(seen.public_losses(about)).mean(0)


def by_gain(seen: Series, about: Candidates) -> Tensor:
    """How much the suspect's training raises the logit, in the mean over rounds."""
    before = seen.public_losses(about)[: len(seen.rounds)]
    return mean_over(confidence(seen.suspects_losses(about)) - confidence(before))


def by_signal(name: str) -> Callable[[Series, Candidates], Tensor]:
    return lambda seen, about: own_signal(seen, about, name)


STATISTICS: Mapping[str, Callable[[Series, Candidates], Tensor]] = {
    "confidence": by_public,
    "rounds": by_all_public,
    "own": by_signal("confidence"),
    "gain": by_gain,
    "cosine": by_signal("cosine"),
    "difference": by_signal("difference"),
}


@dataclass(frozen=True, eq=False)
class References:
    """What S shadow federations say of M candidates, and of Z samples that none trained on.

    Args:
        values: (S, M + Z), one statistic.
        inside: (S, M), whether a shadow trained on a candidate.
    """

    values: Tensor
    inside: Tensor

    def __post_init__(self) -> None:
        enough = min(int(self.inside.sum(0).min()), int((~self.inside).sum(0).min()))
        if enough < 1:
            raise BadObservation(
                f"Of {len(self.inside)} shadow federations, none trained on some candidate, or all "
                "did. Train two or more."
            )

    @property
    def own(self) -> Tensor:
        """(S, M) the candidates' values."""
        return self.values[:, : self.inside.shape[1]].double()

    def moments(self, side: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(M,) mean, sum of squares around it, and number of shadows, over one side."""
        count = side.sum(0)
        mean = (self.own * side).sum(0) / count
        return mean, ((self.own - mean).square() * side).sum(0), count


class Shadows(Protocol):
    """Trains shadow federations like the one that was seen, each once."""

    def __call__(
        self, count: int, statistic: str, seen: Series, progress: Progress = go_on
    ) -> tuple[Candidates, References]: ...


def spread_of(squares: Tensor, count: Tensor, few: int = 32) -> Tensor:
    """(M,) a candidate's own deviation, or with few shadows one for all (LiRA sect. VI-A)."""
    if int(count.min()) < few:
        degrees = (count - 1).sum().clamp_min(1)
        return (squares.sum() / degrees).sqrt().clamp_min(FLAT).expand_as(squares)
    return (squares / (count - 1)).sqrt().clamp_min(FLAT)


def log_density(value: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    return -0.5 * ((value - mean) / spread).square() - spread.log()


def online(found: References, seen: Tensor) -> Tensor:
    """log N(seen; in) − log N(seen; out) (LiRA eq. 3)."""
    target = seen[: found.inside.shape[1]].double()
    sides = [found.moments(side) for side in (found.inside, ~found.inside)]
    inside, outside = (
        log_density(target, mean, spread_of(squares, count)) for mean, squares, count in sides
    )
    return inside - outside


def offline(found: References, seen: Tensor) -> Tensor:
    """−log of the chance of so high a value where the candidate was out (LiRA eq. 4)."""
    target = seen[: found.inside.shape[1]].double()
    mean, squares, count = found.moments(~found.inside)
    found_out: Tensor = -log_ndtr(-(target - mean) / spread_of(squares, count))
    return found_out


def calibrated(found: References, seen: Tensor) -> Tensor:
    """How far the value is above its mean where the candidate was out (Watson 2022)."""
    return seen[: found.inside.shape[1]].double() - found.moments(~found.inside)[0]


def pooled(found: References, seen: Tensor) -> Tensor:
    """The likelihood ratio with deviations and shifts drawn towards those of all candidates.

    A candidate's variance is (d₀s₀² + Σ(v − mean)²) / (d₀ + d), where s₀² and d₀ are what all
    candidates say of it (Smyth 2004); its shift from out to in is drawn to the mean shift by how
    much of its spread is noise. A mean of n values is itself uncertain: variances grow by 1 + 1/n.
    """
    target = seen[: found.inside.shape[1]].double()
    (inside, in_squares, n_in), (outside, out_squares, n_out) = (
        found.moments(side) for side in (found.inside, ~found.inside)
    )
    degrees = (n_in + n_out - 2).double()
    variance = moderated(in_squares + out_squares, degrees)
    shift, noise = inside - outside, variance * (1 / n_in + 1 / n_out)
    middle = shift.mean()
    real = ((shift - middle).square() - noise).mean().clamp_min(0)
    weight = real / (real + noise)
    drawn = middle + weight * (shift - middle)
    # The mean over both sides, once the shift is taken off the values that were in.
    base = (n_out * outside + n_in * (inside - drawn)) / (n_in + n_out)
    spread = (variance * (1 + 1 / (n_in + n_out))).sqrt()
    wider = (spread.square() + weight * noise).sqrt()
    return log_density(target, base + drawn, wider) - log_density(target, base, spread)


def moderated(squares: Tensor, degrees: Tensor) -> Tensor:
    """(M,) variances drawn to a common one, as far as they differ by chance only (Smyth 2004)."""
    if float(degrees.max()) < 1:
        raise BadObservation("Two shadow federations give no spread; train four or more.")
    own = (squares / degrees).clamp_min(FLAT**2)
    logs = own.log() - torch.special.digamma(degrees / 2) + (degrees / 2).log()
    centre: Tensor = logs.mean()
    excess = float((logs.var() - torch.special.polygamma(1, degrees / 2).mean()).clamp_min(0))
    prior = 2 * inverse_trigamma(excess) if excess > 0 else math.inf
    if math.isinf(prior):
        return centre.exp().expand_as(own)
    shift = float(torch.special.digamma(torch.tensor(prior / 2))) - math.log(prior / 2)
    common = (centre + shift).exp()
    return (prior * common + squares) / (prior + degrees)


def inverse_trigamma(value: float) -> float:
    """y with ψ′(y) = value, by Newton's method on 1/ψ′ (Smyth 2004, appendix)."""
    if value > 1e7:
        return 1 / math.sqrt(value)
    y = torch.tensor(0.5 + 1 / value, dtype=torch.float64)
    for _ in range(50):
        trigamma = torch.special.polygamma(1, y)
        step = trigamma * (1 - trigamma / value) / torch.special.polygamma(2, y)
        y = y + step
        if float(-step / y) < 1e-8:
            break
    return float(y)


def pairwise(found: References, seen: Tensor) -> Tensor:
    """The share of population samples z with p(x|seen)/p(x) ≥ p(z|seen)/p(z) (RMIA eq. 2, γ = 1).

    p is the probability of the true class, the logistic function of a logit; p(x) is its mean
    over the shadows, in and out; no shadow trained on z. Ties between shares are told apart by the
    ratio itself.
    """
    count = found.inside.shape[1]
    if found.values.shape[1] == count:
        raise BadObservation("RMIA compares with samples that nobody trained on; there are none.")
    shadows = torch.sigmoid(found.values.double())
    side = found.inside.double()
    inside = (shadows[:, :count] * side).sum(0) / side.sum(0)
    outside = (shadows[:, :count] * (1 - side)).sum(0) / (1 - side).sum(0)
    usual = torch.cat([(inside + outside) / 2, shadows[:, count:].mean(0)]).clamp_min(FLAT)
    ratio = torch.nn.functional.logsigmoid(seen.double()) - usual.log()
    mine, others = ratio[:count], ratio[count:].sort().values
    beaten = torch.searchsorted(others, mine.contiguous(), right=True).double() / len(others)
    return beaten + 1e-6 * torch.tanh(mine)


RULES: Mapping[str, Rule] = {
    "online": online,
    "offline": offline,
    "calibrated": calibrated,
    "pooled": pooled,
    "pairwise": pairwise,
}


@dataclass(frozen=True)
class ByReferences:
    """Scores of all candidates from a statistic of the series, and of shadow federations.

    Args:
        candidates: The samples that the attacker asks about.
        shadows: Federations that the attacker trains itself.
        rule: How a value is compared with those of shadow federations: with and without the sample
            ("online"), without it ("offline"), by its distance to them ("calibrated", "pooled"), or
            pair by pair with other samples ("pairwise").
        statistic: The value: logit of the true class under the last model, over all rounds, under
            the suspect's own model, what the suspect's training gained; or the angle between
            gradient and update, or how much of the update the gradient explains.
        count: Shadow federations that are trained.
    """

    candidates: Candidates
    shadows: Shadows
    rule: Literal["online", "offline", "calibrated", "pooled", "pairwise"] = "online"
    statistic: Statistic = "difference"
    count: int = 4

    def __post_init__(self) -> None:
        if not 2 <= self.count <= 1024:
            raise BadOption(f"count must be between 2 and 1024 shadows, got {self.count}.")
        if self.rule == "pairwise" and self.statistic not in ("confidence", "rounds", "own"):
            raise BadOption(
                f"RMIA compares probabilities of the true class; '{self.statistic}' is none. "
                "Choose from: confidence, rounds, own."
            )

    def __call__(self, seen: Series, progress: Progress = go_on) -> Members:
        started = time.perf_counter()
        about, found = self.shadows(self.count, self.statistic, seen, progress)
        scores = RULES[self.rule](found, STATISTICS[self.statistic](seen, about))
        if not torch.isfinite(scores).all():
            raise BadObservation("Some candidates have no finite score in a shadow federation.")
        return Members(
            scores=scores[None],
            names=(everybody(seen),),
            seconds=time.perf_counter() - started,
            partial=len(found.inside) < self.count,
            found={RIGHT: seen.right(self.candidates)[None]},
        )
