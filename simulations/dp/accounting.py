"""ε on paper: what noise, sampling and steps add up to, by good accountants and by naive formulas.

`exact` gives two numbers: ε lies between them. The other functions are what people use.
"""

import logging
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from fedpriv.errors import BadOption
from fedpriv.simulations.dp.bounds import gaussian_epsilon

MOST_PRV = MOST_PLD = 100.0  # ε of releases whose grid still fits into memory
Sampling = Literal["poisson", "fixed", "none"]


@dataclass(frozen=True)
class Account:
    """A training run as an accountant sees it.

    Evaluations are releases about samples that training never takes. One sample is in either of the
    two, so that its ε is at least the larger of both, and at most that of both together.
    """

    noise: float  # standard deviation of the noise on a sum
    clip: float = 1.0  # the most that one unit adds to that sum
    rate: float = 1.0  # the chance of a unit to be in a step
    steps: int = 1  # of one round
    rounds: int = 1
    delta: float = 1e-5
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    sampling: Sampling = "none"
    runs: int = 1  # trainings on the same data, of which the best was kept
    evaluations: int = 0  # in all rounds
    evaluation_noise: float = 1.0  # of one evaluation, over what one unit moves

    def __post_init__(self) -> None:
        for name in ("noise", "clip", "evaluation_noise"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadOption(f"{name} must be a number above 0, got {getattr(self, name)}.")
        for name in ("steps", "rounds", "runs"):
            if not 1 <= getattr(self, name) <= 10**9:
                raise BadOption(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.evaluations < 0:
            raise BadOption(f"evaluations must be at least 0, got {self.evaluations}.")
        if not 0 < self.rate <= 1:
            raise BadOption(f"rate must be above 0 and at most 1, got {self.rate}.")
        if not 0 < self.delta < 1:
            raise BadOption(f"delta must be above 0 and below 1, got {self.delta}.")

    @property
    def apart(self) -> float:
        """How far two neighbours are apart, in clip norms: to replace one is twice as far."""
        return 2.0 if self.neighbours == "replace" else 1.0

    @property
    def multiplier(self) -> float:
        """Noise over the distance of two neighbours."""
        return self.noise / (self.clip * self.apart)

    @property
    def evaluation_shift(self) -> float:
        """μ of all evaluations together (arXiv 1905.02383, corollary 3.3); 0 without any."""
        return math.sqrt(self.evaluations * self.runs) * self.apart / self.evaluation_noise

    @property
    def amplified(self) -> float:
        """The rate that an accountant may use: only Poisson sampling amplifies."""
        return self.rate if self.sampling == "poisson" else 1.0

    @property
    def releases(self) -> int:
        """Steps that a unit can be in: with fixed batches it is in one of each epoch."""
        steps = self.steps * self.rounds * self.runs
        return max(1, math.ceil(steps * self.rate - 1e-9)) if self.sampling == "fixed" else steps


def exact(account: Account) -> tuple[float, float]:
    """A lower and an upper end of ε: closed for the Gaussian mechanism, else by privacy loss
    distributions (arXiv 2106.08567).

    To replace under Poisson sampling, the upper end takes twice the clip norm as the distance, and
    the lower end is that of adding or removing, which replacing can do as well.
    """
    return _exact(
        account.multiplier,
        account.amplified,
        account.releases,
        account.delta,
        account.apart,
        account.evaluation_shift,
    )


@lru_cache(maxsize=256)
def _exact(
    multiplier: float, rate: float, releases: int, delta: float, apart: float, evaluated: float
) -> tuple[float, float]:
    alone = gaussian_epsilon(evaluated, delta)
    if rate == 1:
        shift = math.sqrt(releases) / multiplier
        low, high = shift, math.hypot(shift, evaluated)
        return max(gaussian_epsilon(low, delta), alone), gaussian_epsilon(high, delta)
    from dp_accounting.pld import privacy_loss_distribution as pld

    def by(noise: float, pessimistic: bool) -> pld.PrivacyLossDistribution:
        one = pld.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        return one.self_compose(releases)

    least = float(by(multiplier * apart, False).get_epsilon_for_delta(delta))
    most = by(multiplier, True)
    if alone > MOST_PLD:  # each of the two with half of δ, and their sum
        half = delta / 2
        high = float(most.get_epsilon_for_delta(half)) + gaussian_epsilon(evaluated, half)
        return max(least, alone), high
    if evaluated:
        most = most.compose(pld.from_gaussian_mechanism(1 / evaluated))
    return max(least, alone), float(most.get_epsilon_for_delta(delta))


def rdp(account: Account) -> float:
    """Rényi DP (arXiv 1702.07476, 1908.10530)."""
    import dp_accounting

    logging.getLogger("absl").setLevel(logging.ERROR)  # it warns of each order that it leaves out
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 512))
    accountant = dp_accounting.rdp.RdpAccountant(orders)
    event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(account.multiplier)
    if account.amplified < 1:
        event = dp_accounting.PoissonSampledDpEvent(account.amplified, event)
    accountant.compose(event, account.releases)
    if account.evaluations:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / account.evaluation_shift))
    return float(accountant.get_epsilon(account.delta))


def prv(account: Account) -> float:
    """Privacy loss random variables, as in Opacus (arXiv 2106.02848)."""
    from opacus.accountants import create_accountant

    if exact(account)[1] > MOST_PRV:
        return math.nan  # its grid would not fit into memory
    accountant = create_accountant(mechanism="prv")
    accountant.history = [(account.multiplier, account.amplified, account.releases)]
    if account.evaluations:
        accountant.history.append((1 / account.evaluation_shift, 1.0, 1))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(delta=account.delta))


def zcdp(account: Account) -> float:
    """ρ + 2√(ρ ln 1/δ), ρ = k/2z², without sampling (arXiv 1605.02065)."""
    rho = account.releases / (2 * account.multiplier**2) + account.evaluation_shift**2 / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / account.delta))


def classic(account: Account) -> float:
    """√(2 ln 1.25/δ)/z times the releases: proven for ε below 1 and one release only."""
    once = math.sqrt(2 * math.log(1.25 / account.delta))
    return once * (account.releases / account.multiplier) + _classic_evaluations(account)


def advanced(account: Account) -> float:
    """Advanced composition of the classic formula, each release with half of δ."""
    k, half = account.releases, account.delta / 2
    once = account.amplified * math.sqrt(2 * math.log(1.25 * k / half)) / account.multiplier
    grown = math.expm1(once) if once < 500 else math.inf
    trained = once * math.sqrt(2 * k * math.log(1 / half)) + k * once * grown
    return min(trained + _classic_evaluations(account), classic(account))


def _classic_evaluations(account: Account) -> float:
    each = math.sqrt(2 * math.log(1.25 / account.delta)) * account.apart / account.evaluation_noise
    return each * account.evaluations * account.runs


FORMULAS: Mapping[str, Callable[[Account], float]] = {
    "RDP": rdp,
    "PRV": prv,
    "zCDP, no sampling": zcdp,
    "√(2 ln 1.25/δ)/z × releases": classic,
    "advanced composition": advanced,
}
