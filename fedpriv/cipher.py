"""Random numbers that nobody else can compute: a stream cipher with a key of 256 bits.

torch's CPU generator keeps only 32 bits of a seed. All of them can be tried in minutes, and with
the right one all noise is gone. So nothing that must stay secret comes from torch's generators.
Whose key it is, and when a new one is drawn, is for clients and strategies to say.

Noise is computed in double precision, and each value from 16 uniform numbers of 52 bits. A
single logarithm or cosine of a double can be recognised in the sum that is released, since most
doubles are the logarithm of no double (Mironov 2012). In a sum of several Gaussians they cannot
(Holohan & Braghin 2021, sect. 5); see `gaussians`.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from torch import Tensor

POINTS = 8  # of the plane, which are mixed
AT_ONCE = 4096  # columns of `gaussians`; they then stay in the processor's cache
ONE = np.uint64(0x3FF0000000000000)  # the double 1.0, whose last 52 bits are zero


def gaussians(uniform: np.ndarray, out: np.ndarray) -> None:
    """Put independent Gaussians (2, 7, n) into `out`, from numbers between 1 and 2 (2, 8, n).

    A column has eight pairs u, v. They give eight points of the plane, √(−2 ln u) · (cos 2πv,
    sin 2πv) (Box & Muller). A quarter of their sum is taken from each. That is a reflection
    (Householder), so that the points stay independent Gaussians, and all eight are in each result.

    The eighth result is never computed. So even who knows the 14 values of a column knows too
    little: there are about 2^90 ways to get them (16 · 52 random bits for 14 · 53 bits of result),
    and about as many for other values. None shows what the noise was added to.

    With t = tan πv, cos 2πv is 2 / (1 + t²) − 1 and sin 2πv is 2t / (1 + t²): one tangent is
    cheaper than a sine and a cosine. `uniform` is changed.
    """
    radius, tangent = uniform
    np.subtract(2, radius, out=radius)  # above 0, up to 1
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    tangent *= math.pi
    np.tan(tangent, out=tangent)
    part = tangent * tangent
    part += 1
    np.divide(radius, part, out=part)
    part += part
    np.subtract(part, radius, out=radius)
    tangent *= part
    taken = uniform.sum(axis=1, keepdims=True) * (2 / POINTS)
    np.subtract(uniform[:, :-1], taken, out=out)


class CipherDraws:
    """Draws from ChaCha20 under one key. Whoever lacks the key cannot tell them from chance."""

    def __init__(self, key: bytes) -> None:
        # One key makes one stream only, so that the nonce and the counter may begin at 0.
        self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()

    def words(self, count: int) -> np.ndarray:
        """The next `count` words of 64 random bits."""
        found = np.zeros(count, np.uint64)
        plain = found.view(np.uint8).data
        self._stream.update_into(plain, plain)
        return found

    def doubles(self, count: int) -> np.ndarray:
        """Doubles from 1 up to but without 2, each with 52 random bits."""
        found = self.words(count)
        found >>= np.uint64(12)
        found |= ONE
        return found.view(np.float64)

    def uniform(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        bits = 24 if dtype == torch.float32 else 53  # what fits, so that rounding never gives 1
        words = self.words(math.prod(shape)) >> np.uint64(64 - bits)
        values = words.astype(np.float64) * 2.0**-bits
        return torch.from_numpy(values).view(tuple(shape)).to(dtype)

    def coins(self, chance: float, shape: Sequence[int]) -> Tensor:
        return self.uniform(shape, torch.float64) < chance

    def integers(self, high: int, shape: Sequence[int]) -> Tensor:
        """No value is likelier than another by more than high / 2^64."""
        found = self.words(math.prod(shape)) % np.uint64(high)
        return torch.from_numpy(found.astype(np.int64)).view(tuple(shape))

    def permutation(self, count: int) -> Tensor:
        """Sorts one random word for each number; two words are equal with a chance of 2^-64."""
        return torch.from_numpy(np.argsort(self.words(count), kind="stable"))

    def normal(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """In double precision whatever was asked for."""
        count, width = math.prod(shape), 2 * (POINTS - 1)
        found = np.empty(math.ceil(count / width) * width)
        for start in range(0, len(found), width * AT_ONCE):
            here = found[start : start + width * AT_ONCE].reshape(2, POINTS - 1, -1)
            columns = here.shape[-1]
            uniform = self.doubles(2 * POINTS * columns).reshape(2, POINTS, columns)
            gaussians(uniform, out=here)
        return torch.from_numpy(found[:count]).view(tuple(shape))

    def laplace(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """As `normal`: a · b + c · d of four Gaussians is Laplace noise of scale 1."""
        a, b, c, d = self.normal((4, *shape))
        found: Tensor = a.mul_(b).add_(c.mul_(d))
        return found
