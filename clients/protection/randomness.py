"""Random numbers that nobody else can compute: a stream cipher with a key of 256 bits.

torch's CPU generator keeps only 32 bits of a seed. All of them can be tried in minutes, and with
the right one all noise is gone. So nothing that must stay secret comes from torch's generators.

Noise is computed in double precision from several uniform numbers for each value. A single
logarithm or cosine of a double can be recognised in the sum that is released, since most doubles
are the logarithm of no double (Mironov 2012). With four uniform numbers of 52 bits in each value
there are 2^156 combinations to try (Holohan & Braghin 2021, sect. 5).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from torch import Tensor

AT_ONCE = 16384  # values; their intermediate results then stay in the processor's cache
ONE = np.uint64(0x3FF0000000000000)  # the double 1.0, whose last 52 bits are zero


def gaussian_part(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """√(−2 ln u) · cos 2πv: a Gaussian of variance 1 (Box & Muller); v is changed."""
    found: np.ndarray = np.sqrt(-2 * np.log(u)) * cosine(v)
    return found


def laplace_part(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """−ln u · cos 2πv: half a difference of squares of two Gaussians; v is changed.

    The sum of two of them is Laplace noise of scale 1 (Holohan & Braghin 2021, sect. 5).
    """
    found: np.ndarray = -np.log(u) * cosine(v)
    return found


def cosine(v: np.ndarray) -> np.ndarray:
    """cos 2πv, in place; torch's is three times as fast as numpy's."""
    found: np.ndarray = torch.from_numpy(v).mul_(2 * math.pi).cos_().numpy()
    return found


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
        return self._noise(shape, gaussian_part).mul_(math.sqrt(0.5))

    def laplace(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        return self._noise(shape, laplace_part)

    def _noise(
        self, shape: Sequence[int], part: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> Tensor:
        """The sum of two parts for each value, in double precision whatever was asked for."""
        found = np.empty(math.prod(shape))
        for start in range(0, len(found), AT_ONCE):
            chunk = found[start : start + AT_ONCE]
            u, v, s, t = self.doubles(4 * len(chunk)).reshape(4, -1)
            np.subtract(2, u, out=u)  # above 0, up to 1
            np.subtract(2, s, out=s)
            np.add(part(u, v), part(s, t), out=chunk)
        return torch.from_numpy(found).view(tuple(shape))
