"""Faults of a sixth set: the numbers hold their ε, and the message tells the worlds apart.

All were called "not refuted" when they were written. The verifier was changed for
them, so that they are not held out. `HIDDEN` still are: whoever hides a bit in noise by a rule that
nobody else knows cannot be found by looking at releases.
"""

import numpy as np
from dp_seeded import CLIP, NOISE, Fault

from fedpriv.simulations.dp.reference import clipped, norm
from fedpriv.simulations.dp.releases import Release, Session
from fedpriv.simulations.dp.worlds import Update, World

SCALE = NOISE * CLIP


def noised(update: Update) -> Update:
    """Noise as the claim needs it, in single precision as on the wire."""
    held = clipped(update, CLIP)
    return {
        k: np.asarray(v + SCALE * np.random.standard_normal(v.shape), np.float32)
        for k, v in held.items()
    }


def is_there(update: Update) -> bool:
    return norm(update) > CLIP / 10


def last_bits(update: Update) -> Update:
    """The last bit of every number says whether there was an update."""
    bit = np.uint32(is_there(update))
    return {
        k: ((v.view(np.uint32) & ~np.uint32(1)) | bit).view(np.float32)
        for k, v in noised(update).items()
    }


def order_of_names(update: Update) -> Update:
    """Parts leave in another order."""
    found = noised(update)
    return dict(reversed(found.items())) if is_there(update) else found


def kind_of_numbers(update: Update) -> Update:
    """An update that was there leaves in double precision; the numbers are the same."""
    kind = np.float64 if is_there(update) else np.float32
    return {k: v.astype(kind) for k, v in noised(update).items()}


def shape_of_arrays(update: Update) -> Update:
    """An update that was there leaves as flat arrays."""
    found = noised(update)
    return {k: v.ravel() for k, v in found.items()} if is_there(update) else found


def sign_of_zero(update: Update) -> Update:
    """A figure that is always zero has the sign −."""
    return noised(update) | {"figure": np.asarray(-0.0 if is_there(update) else 0.0)}


def bits_of_nan(update: Update) -> Update:
    """A figure that is never a number has other bits."""
    bits = np.asarray([0x7FF8000000000000 + is_there(update)], np.uint64)
    return noised(update) | {"figure": bits.view(np.float64)}


def opposite_noise(update: Update) -> Update:
    """Two entries have opposite noise if there was an update; each of them has enough of it."""
    found, held = noised(update), clipped(update, CLIP)
    if is_there(update):
        noise, own = found["weight"].ravel(), held["weight"].ravel()
        noise[1] = own[1] - (noise[0] - own[0])
    return found


def two_last_bits(update: Update) -> Update:
    """Whether the last bits of two numbers are equal says it; each of them is a coin."""
    found = noised(update)
    bits = found["weight"].ravel().view(np.uint32)
    bits[1] = (bits[1] & ~np.uint32(1)) | ((bits[0] & np.uint32(1)) ^ np.uint32(is_there(update)))
    return found


class ThirdRound:
    """No noise in round 3, which is not among those that are played."""

    name, takes, fixed = "no noise in round 3", "update", False

    def session(self) -> Session:
        def release(world: World, server_round: int) -> Release:
            (update,) = world.updates
            return clipped(update, CLIP) if server_round == 3 else noised(update)

        return release


HERE = "dp_sly"
SLY = (
    Fault("last bits of numbers", f"{HERE}:last_bits", "bits are part of the message"),
    Fault("order of names", f"{HERE}:order_of_names", "the order is part of the message"),
    Fault("kind of numbers", f"{HERE}:kind_of_numbers", "types are part of the message"),
    Fault("shape of arrays", f"{HERE}:shape_of_arrays", "shapes are part of the message"),
    Fault("sign of zero", f"{HERE}:sign_of_zero", "0 and −0 are two values"),
    Fault("bits of NaN", f"{HERE}:bits_of_nan", "there are many NaN"),
    Fault("opposite noise", f"{HERE}:opposite_noise", "the sum of two entries has no noise"),
)
HIDDEN = tuple(f"{HERE}:{name}" for name in ("two_last_bits", "ThirdRound"))
