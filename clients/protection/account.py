"""The account of a client's ε: what its steps spend, and how many samples it may admit to have.

Neighbours are two data sets of which one has one sample more (add or remove one). So the number of
samples is as secret as the samples. Sampling rate and steps follow from a public number in its
place: the owner declares one, or the client draws a noised one, once for all runs.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch

from fedpriv.errors import BadOption
from fedpriv.rng import Draws
from fedpriv.wire import Memory

History = list[tuple[float, float, int]]  # noise multiplier, sample rate, steps

MEMORY, COUNT = "dp", "dp.count"
COUNT_EPSILON = 0.1  # what a noised number of samples spends at most


def spent(history: History, delta: float, accountant: str) -> float:
    """ε of all steps in the history together, as Opacus' accountant has it."""
    from opacus.accountants import create_accountant

    account = create_accountant(mechanism=accountant)
    account.history = list(history)
    return float(account.get_epsilon(delta=delta)) if history else 0.0


def composed(history: History, noise: float, rate: float, steps: int) -> History:
    """The history with some steps more; equal steps in a row are one entry, as in Opacus."""
    if history and history[-1][:2] == (noise, rate):
        return [*history[:-1], (noise, rate, history[-1][2] + steps)]
    return [*history, (noise, rate, steps)]


@lru_cache(maxsize=256)
def noise_for(epsilon: float, delta: float, rate: float, steps: int, accountant: str) -> float:
    """The noise multiplier with which so many steps spend at most ε."""
    from opacus.accountants.utils import get_noise_multiplier

    try:
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
