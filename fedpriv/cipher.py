"""Random numbers that nobody else can compute: a stream cipher with a key of 256 bits.

torch's CPU generator keeps only 32 bits of a seed. All of them can be tried in minutes, and with
the right one all noise is gone. So nothing that must stay secret comes from torch's generators.
Whose key it is, and when a new one is drawn, is for clients and strategies to say.

Noise is computed in double precision, and each value from eight uniform numbers of 52 bits. A
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

AT_ONCE = 4096  # columns of `gaussians`; they then stay in the processor's cache
ONE = np.uint64(0x3FF0000000000000)  # the double 1.0, whose last 52 bits are zero


def gaussians(u: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Six rows of independent Gaussians of variance 1, from uniform numbers from 1 up to 2 (4, n).

    Each column of u and v gives four points of the plane, √(−2 ln u) · (cos 2πv, sin 2πv) (Box &
    Muller). Of four orthogonal sums of them, ½(±1 ±1 ±1 ±1), three are returned. The fourth is
    never computed. It leaves two of eight uniform numbers open: even who knows all six values of a
    column has about 2^98 ways to get them (416 random bits, 318 bits of result), and every result
    that arithmetic can give has as many. So no result shows which sum the noise was added to.

    With t = tan πv, cos 2πv is 2 / (1 + t²) − 1 and sin 2πv is 2t / (1 + t²): one tangent is
    cheaper than a sine and a cosine. u and v are changed.
    """
    radius, tangent = np.subtract(2, u, out=u), np.multiply(v, math.pi, out=v)
    np.log(radius, out=radius)  # of a number above 0, up to 1
    radius *= -0.5  # −2, times ½² for the sums
    np.sqrt(radius, out=radius)
    np.tan(tangent, out=tangent)
    both = tangent * tangent
    both += 1
    np.divide(radius, both, out=both)
    both += both
    x, y = np.subtract(both, radius, out=radius), np.multiply(both, tangent, out=tangent)
    return [*three_sums(*x), *three_sums(*y)]


def three_sums(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> list[np.ndarray]:
    """a + b + c + d, a + b − c − d, a − b + c − d; the arguments are changed."""
    more, less = a + b, np.subtract(a, b, out=a)
    other, rest = c + d, np.subtract(c, d, out=c)
    less += rest
    return [np.add(more, other, out=b), np.subtract(more, other, out=d), less]


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
        found = np.empty(math.prod(shape))
        for start in range(0, len(found), 6 * AT_ONCE):
            rest = found[start : start + 6 * AT_ONCE]
            columns = math.ceil(len(rest) / 6)
            u, v = self.doubles(8 * columns).reshape(2, 4, columns)
            for row in gaussians(u, v):
                here, rest = rest[:columns], rest[columns:]
                here[:] = row[: len(here)]
        return torch.from_numpy(found).view(tuple(shape))

    def laplace(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """As `normal`: a · b + c · d of four Gaussians is Laplace noise of scale 1."""
        a, b, c, d = self.normal((4, *shape))
        return a.mul_(b).add_(c.mul_(d))
