"""Faults that the verifier was not tuned on: written before its code was read, and run as it was.

Each is right but for its fault, and claims ε = 4 at δ = 1e-5 for a client that is added or removed.
`docs/measured/verify-dp.csv` says which of them were refuted before and after the verifier changed.
"""

import numpy as np
from dp_seeded import CLIP, EPSILON, NOISE, Fault, noised

from fedpriv.simulations.dp.reference import clipped
from fedpriv.simulations.dp.worlds import Update

SCALE = NOISE * CLIP


def noise_in_a_range(update: Update) -> Update:
    """The noise is cut at two standard deviations, so that some outputs need the client."""
    return {
        k: v + np.clip(SCALE * np.random.standard_normal(v.shape), -2 * SCALE, 2 * SCALE)
        for k, v in clipped(update, CLIP).items()
    }


def one_layer_less(update: Update) -> Update:
    """The last entry gets a tenth of the noise."""
    held = clipped(update, CLIP)
    last = list(held)[-1]
    less = noised({last: held[last]}, SCALE / 10)
    return noised({k: v for k, v in held.items() if k != last}, SCALE) | less


def noise_then_clip(update: Update) -> Update:
    """Noise comes first, and the noisy update is clipped: a large update drowns the noise."""
    return clipped(noised(update, SCALE), CLIP)


def clip_by_layer(update: Update) -> Update:
    """Each layer is clipped to the whole norm: L layers have √L times the sensitivity."""
    held: Update = {}
    for name, values in update.items():
        held |= clipped({name: values}, CLIP)
    return noised(held, SCALE)


def one_draw_for_all(update: Update) -> Update:
    """One number is drawn for each layer and added to all its entries: differences are bare."""
    return {k: v + SCALE * np.random.standard_normal() for k, v in clipped(update, CLIP).items()}


def noise_on_a_grid(update: Update) -> Update:
    """The noise is rounded to a grid and the update is not: the low digits are bare."""
    return {
        k: v + np.round(SCALE * np.random.standard_normal(v.shape) / 0.25) * 0.25
        for k, v in clipped(update, CLIP).items()
    }


def noise_left_out(update: Update) -> Update:
    """One release in twenty has no noise."""
    held = clipped(update, CLIP)
    return held if np.random.random() < 0.05 else noised(held, SCALE)


def sign_in_a_metric(update: Update) -> Update:
    """A second part of the release says which way the update went."""
    held = clipped(update, CLIP)
    way = np.sign(sum(float(v.sum()) for v in held.values()))
    return noised(held, SCALE) | {"direction": np.asarray(way)}


def noise_by_norm(update: Update) -> Update:
    """The noise grows with the update: half of it for zeros, all of it at the clip norm."""
    held = clipped(update, CLIP)
    norm = np.sqrt(sum(float((v**2).sum()) for v in held.values()))
    return noised(held, SCALE * (0.5 + 0.5 * norm / CLIP))


def laplace_by_the_wrong_norm(update: Update) -> Update:
    """Laplace noise of C/ε needs a clipped sum of magnitudes; this one clips the Euclidean norm."""
    return {
        k: v + np.random.laplace(0, CLIP / EPSILON, v.shape)
        for k, v in clipped(update, CLIP).items()
    }


def noise_where_it_changed(update: Update) -> Update:
    """Entries that are zero stay zero, to keep an update sparse: the pattern is bare."""
    held = clipped(update, CLIP)
    noisy = noised(held, SCALE)
    return {k: np.where(held[k] != 0, noisy[k], 0.0) for k in held}


def clip_by_value(update: Update) -> Update:
    """Every entry is clipped on its own: d entries have √d times the sensitivity."""
    return noised({k: np.clip(v, -CLIP, CLIP) for k, v in update.items()}, SCALE)


def short_seed(update: Update) -> Update:
    """The noise comes from a seed of ten bits: who tries all of them takes it off again."""
    draw = np.random.default_rng(int(np.random.randint(2**10)))
    return {k: v + SCALE * draw.standard_normal(v.shape) for k, v in clipped(update, CLIP).items()}


def largest_entries(update: Update) -> Update:
    """Only the entries that are largest without noise are sent: their places are bare."""
    held = clipped(update, CLIP)
    noisy = noised(held, SCALE)
    sent: Update = {}
    for name, values in held.items():
        first = np.argsort(-np.abs(values).ravel(), kind="stable")[: max(1, values.size // 4)]
        kept = np.zeros(values.size, bool)
        kept[first] = True
        sent[name] = np.where(kept.reshape(values.shape), noisy[name], 0.0)
    return sent


HERE = "dp_held_out"
HELD_OUT: tuple[Fault, ...] = (
    Fault("noise cut to a range", f"{HERE}:noise_in_a_range", "some outputs need the client"),
    Fault("a tenth of the noise on one layer", f"{HERE}:one_layer_less", "each layer needs all"),
    Fault("noise before clipping", f"{HERE}:noise_then_clip", "a large update drowns the noise"),
    Fault("each layer clipped to C", f"{HERE}:clip_by_layer", "L layers have √L of sensitivity"),
    Fault("one draw for a layer", f"{HERE}:one_draw_for_all", "differences have no noise"),
    Fault("noise on a grid", f"{HERE}:noise_on_a_grid", "the low digits have no noise"),
    Fault("noise left out in 5 %", f"{HERE}:noise_left_out", "5 % is more than δ"),
    Fault("sign in a metric", f"{HERE}:sign_in_a_metric", "a metric is part of the message"),
    Fault("noise by the update's norm", f"{HERE}:noise_by_norm", "the noise tells the norm"),
    Fault(
        "Laplace by the wrong norm",
        f"{HERE}:laplace_by_the_wrong_norm",
        "√d is between the two norms",
    ),
    Fault("noise where it changed", f"{HERE}:noise_where_it_changed", "zeros have no noise"),
    Fault("each entry clipped to C", f"{HERE}:clip_by_value", "d entries have √d of sensitivity"),
    Fault("noise from a short seed", f"{HERE}:short_seed", "1,024 noises can all be tried"),
    Fault("largest entries only", f"{HERE}:largest_entries", "which entries are sent is bare"),
)
