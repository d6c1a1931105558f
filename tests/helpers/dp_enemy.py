"""Faults of a fifth set: written to be called "not refuted", by somebody who had read the verifier.

All of them were. It was changed for them, so that they are not held out. Two are refuted now. Noise
that is small and not Gaussian cannot be refuted with few draws where the claim is high: there the
answer is "undecided".
"""

import numpy as np
from dp_seeded import CLIP, NOISE, Fault, noised

from fedpriv.simulations.dp.reference import clipped, norm
from fedpriv.simulations.dp.releases import Release, Session
from fedpriv.simulations.dp.worlds import Update, World

SMALL = 0.01 * CLIP


def refuses_large(update: Update) -> Update:
    """It raises an error where it should clip, and everybody sees who failed."""
    if norm(update) > 1.001 * CLIP:
        raise ValueError("the update is too large")
    return noised(update, NOISE * CLIP)


class Fading:
    """Noise that becomes less from round to round."""

    name, takes, fixed = "fading noise", "update", False

    def session(self) -> Session:
        def release(world: World, server_round: int) -> Release:
            return noised(clipped(world.updates[0], CLIP), NOISE * CLIP / server_round)

        return release


def small_laplace(update: Update) -> Update:
    """Laplace noise of a hundredth of the norm."""
    held = clipped(update, CLIP)
    return {k: v + np.random.laplace(0, SMALL, v.shape) for k, v in held.items()}


def small_and_cut(update: Update) -> Update:
    """Gaussian noise of a hundredth of the norm, its ends cut off: no bound for Gaussian noise."""
    held = clipped(update, CLIP)
    return {k: v + SMALL * np.random.standard_normal(v.shape).clip(-2, 2) for k, v in held.items()}


def seldom_large(update: Update, often: float = 0.99) -> Update:
    """Little noise in 99 of 100 releases, and very much in the others."""
    scale = SMALL if np.random.random() < often else 30 * CLIP
    return noised(clipped(update, CLIP), scale)


def often_large(update: Update) -> Update:
    """Little noise in seven of ten releases, and very much in the others."""
    return seldom_large(update, 0.7)


HERE = "dp_enemy"
ENEMY = (
    Fault("refused instead of clipped", f"{HERE}:refuses_large", "a failure is seen"),
    Fault("noise fades over rounds", f"{HERE}:Fading", "every round needs all of it"),
)
TOO_HIGH = tuple(
    f"{HERE}:{name}" for name in ("small_laplace", "small_and_cut", "seldom_large", "often_large")
)
