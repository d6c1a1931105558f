"""The masks of secure aggregation: a stream cipher in the place of Flower's generator.

Flower folds a mask's key of 256 bits to 32 and gives these to a Mersenne twister. A server could
try all of them, and see which one leaves an update. Here all bits of the key count.

The client adds masks and the server takes them out again, so both sides need the same ones.
"""

import hmac
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from fedpriv.errors import BadOption, WorkFailed

PURPOSE = b"fedpriv: a mask of secure aggregation"
WIDEST = 2**32
THEIRS = "pseudo_rand_gen"  # what Flower calls its own


def check_range(values: object) -> None:
    """BadOption unless masks can be uniform over so many values."""
    if type(values) is not int or not 2 <= values <= WIDEST or values & (values - 1):
        raise BadOption(
            f"secure aggregation: numbers modulo {values!r}; give a power of 2 up to {WIDEST}."
        )


def mask(seed: bytes, values: int, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Arrays of these shapes, uniform from 0 up to but without `values`: ChaCha20 under a key."""
    check_range(values)
    key = hmac.digest(seed, PURPOSE, "sha256")
    # A key makes one stream only, so that the nonce and the counter may begin at 0.
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()

    def drawn(shape: tuple[int, ...]) -> np.ndarray:
        words = np.frombuffer(stream.update(bytes(4 * math.prod(shape))), "<u4")
        return (words & np.uint32(values - 1)).astype(np.int64).reshape(shape)

    return [drawn(shape) for shape in shapes]


def masks_in(function: Callable[..., Any]) -> None:
    """Let the module of a function of Flower's use our masks."""
    own = vars(sys.modules[function.__module__])
    if THEIRS not in own:
        raise WorkFailed(f"{function.__module__} has no {THEIRS}: this Flower makes other masks.")
    own[THEIRS] = mask
