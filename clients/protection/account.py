"""The account of a client's ε: what its steps spend, and how many samples it may admit to have.

Neighbours are two data sets of which one has one sample more (add or remove one). So the number of
samples is as secret as the samples. Sampling rate and steps follow from a public number in its
place: the owner declares one, or the client draws a noised one, once for all runs.
"""

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from fedpriv.errors import BadOption, Refused
from fedpriv.rng import Draws
from fedpriv.wire import Memory

Steps = tuple[float, float, int]  # noise multiplier, sample rate, how many
History = list[Steps]

MEMORY, COUNT = "dp", "dp.count"
COUNT_EPSILON = 0.1  # what a noised number of samples spends at most
LEAST, MOST = 0.1, 1000.0  # noise multipliers; Opacus' accountants may never end outside
PRV_UP_TO = 50.0  # ε beyond which Opacus' prv takes minutes, and then all memory


def spent(history: History, delta: float, accountant: str) -> float:
    """ε of all steps in the history together, as Opacus' accountants have it."""
    if not history:
        return 0.0
    epsilon = spent_by_rdp(history, delta)
    if accountant == "rdp":
        return epsilon
    if epsilon > PRV_UP_TO:
        raise Refused(
            f"dp: the sample-level epsilon would be {epsilon:.0f} by rdp; prv can account only up "
            f"to {PRV_UP_TO:g}. Raise the noise, run fewer steps, or set dp's accountant to 'rdp'."
        )
    from opacus.accountants import create_accountant

    account = create_accountant(mechanism=accountant)
    account.history = list(history)
    # log(1 − rate) is infinite for a step that takes all samples, and no harm.
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Optimal order")
        return float(account.get_epsilon(delta=delta, eps_error=min(0.01, epsilon / 500)))


def spent_by_rdp(history: History, delta: float) -> float:
    """ε by Rényi differential privacy (Mironov et al. 2019), with Opacus' orders α."""
    from opacus.accountants import RDPAccountant
    from opacus.accountants.analysis.rdp import get_privacy_spent

    total = sum(steps * rdp_of_step(noise, rate) for noise, rate, steps in history)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Optimal order")  # it is a bound all the same
        epsilon, _ = get_privacy_spent(orders=RDPAccountant.DEFAULT_ALPHAS, rdp=total, delta=delta)
    return float(epsilon)


@lru_cache(maxsize=1024)
def rdp_of_step(noise: float, rate: float) -> np.ndarray:
    """Rényi divergence of one step for each order: it takes up to a second, so it is kept."""
    from opacus.accountants import RDPAccountant
    from opacus.accountants.analysis.rdp import compute_rdp

    orders = RDPAccountant.DEFAULT_ALPHAS
    return np.asarray(compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=orders))


def composed(history: History, noise: float, rate: float, steps: int) -> History:
    """The history with some steps more; equal steps are one entry, the last one if they are new.

    ε does not depend on the order of steps. So a server that changes settings to and fro does not
    make the history longer and longer.
    """
    before = {entry[:2]: entry[2] for entry in history}
    own = before.pop((noise, rate), 0)
    return [*((*key, count) for key, count in before.items()), (noise, rate, own + steps)]


@lru_cache(maxsize=256)
def noise_for(
    epsilon: float,
    delta: float,
    rate: float,
    steps: int,
    accountant: str,
    others: tuple[Steps, ...] = (),
) -> float:
    """The noise multiplier with which so many steps, and the others, spend at most ε."""
    if others:
        return noise_beside(others, epsilon, delta, rate, steps, accountant)
    from opacus.accountants.utils import get_noise_multiplier

    if spent_by_rdp([(LEAST, rate, steps)], delta) <= epsilon:
        return LEAST
    least = spent([(MOST, rate, steps)], delta, accountant)
    if least > epsilon:
        raise BadOption(
            f"dp: {steps} steps spend an epsilon of {least:.2g} even with a noise-multiplier of "
            f"{MOST:g}, so that nothing reaches {epsilon:g}. Raise epsilon or delta."
        )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Optimal order")
            found = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=rate,
                steps=steps,
                accountant=accountant,
            )
    except ValueError as error:
        raise BadOption(f"dp: no noise reaches epsilon = {epsilon}: {error}.") from error
    return float(found)


def noise_beside(
    others: tuple[Steps, ...], epsilon: float, delta: float, rate: float, steps: int, by: str
) -> float:
    """As `noise_for`, found to 0.5 % by halving; Opacus' own search knows one kind of step only."""

    def fits(noise: float) -> bool:
        history = [*others, (noise, rate, steps)]
        return spent_by_rdp(history, delta) <= PRV_UP_TO and spent(history, delta, by) <= epsilon

    if not fits(MOST):
        raise BadOption(
            f"dp: evaluations leave too little of an epsilon of {epsilon:.3g} to train with. Raise "
            "evaluation-noise or epsilon, or set training.holdout to 0."
        )
    low, high = LEAST, MOST
    while high > low * 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def recalled(memory: Memory) -> History:
    """What this client's earlier rounds spent, in whatever run."""
    facts = memory.facts(MEMORY)
    if not facts:
        return []
    return list(zip(facts["noise"], facts["rate"], facts["steps"], strict=True))


def charge(memory: Memory, history: History) -> None:
    """Write down all steps, those of this round included."""
    columns = [list(column) for column in zip(*history, strict=True)]
    memory.note(MEMORY, dict(zip(("noise", "rate", "steps"), columns, strict=True)))


@dataclass(frozen=True)
class PublicCount:
    """How many samples a client admits to have, and the ε that this admission spent."""

    samples: int
    epsilon: float = 0.0


def discrete_laplace(epsilon: float, draw: Draws) -> int:
    """A whole number k with a chance proportional to exp(−ε|k|): a difference of geometric ones.

    The logarithm of a double is rounded. That moves less than 2^-50 of the distribution.
    """
    one, other = (1 - draw.uniform((2,), torch.float64)).log()
    return math.floor(-float(one) / epsilon) - math.floor(-float(other) / epsilon)


def noised_count(samples: int, epsilon: float, memory: Memory, draw: Draws) -> PublicCount:
    """The number of samples with noise on it; drawn on first use, and kept for all runs.

    One sample more or less changes the number by one, so that it is ε-private.
    """
    facts = memory.facts(COUNT)
    if not facts:
        found = max(1, samples + discrete_laplace(epsilon, draw))
        facts = {"samples": found, "epsilon": epsilon}
        memory.note(COUNT, facts)
    return PublicCount(int(facts["samples"]), float(facts["epsilon"]))


def drawn_before(memory: Memory) -> float:
    """The ε that an earlier drawing of the number of samples spent; 0 when there was none."""
    return float(memory.facts(COUNT).get("epsilon", 0.0))
