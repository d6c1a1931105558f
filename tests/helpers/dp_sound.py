"""Mechanisms that hold their ε = 4 and look as if they did not: a verifier must not refute them.

What is done to noisy values alone, and looks at nothing else, costs no ε (post-processing).
"""

import math

import numpy as np
from dp_fresh import flat, shaped
from dp_seeded import CLIP, EPSILON, NOISE, noised

from fedpriv.simulations.dp.reference import clipped
from fedpriv.simulations.dp.worlds import Update

SCALE = NOISE * CLIP


def largest_noisy_entries(update: Update) -> Update:
    """The largest entries of the noisy update are sent, so that their places have noise too."""
    noisy = noised(clipped(update, CLIP), SCALE)
    values = flat(noisy)
    least = np.sort(np.abs(values))[-len(values) // 4]
    return shaped(np.where(np.abs(values) >= least, values, 0.0), noisy)


def rounded_after_noise(update: Update) -> Update:
    """Noisy entries are rounded to steps that do not depend on the update."""
    return {k: np.round(v / 0.25) * 0.25 for k, v in noised(clipped(update, CLIP), SCALE).items()}


def logistic(update: Update) -> Update:
    """Logistic noise of scale C/ε on an update whose sizes add up to C: pure ε-DP."""
    return {
        k: v + np.random.logistic(0, CLIP / EPSILON, v.shape)
        for k, v in clipped(update, CLIP, order=1).items()
    }


def randomised_response(update: Update) -> Update:
    """Whether there was an update, and a lie with a chance of 1 / (1 + e^ε): pure ε-DP."""
    truth = float(np.abs(flat(update)).max() > 0.1 * CLIP)
    lies = np.random.random() < 1 / (1 + math.exp(EPSILON))
    return {"answer": np.asarray(1 - truth if lies else truth)}


HERE = "dp_sound"
SOUND = {
    "largest of the noisy entries": f"{HERE}:largest_noisy_entries",
    "rounded after noise": f"{HERE}:rounded_after_noise",
    "logistic noise": f"{HERE}:logistic",
    "randomised response": f"{HERE}:randomised_response",
}
