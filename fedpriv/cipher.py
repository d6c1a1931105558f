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
import platform
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from torch import Tensor

POINTS = 8  # of the plane, which are mixed
AT_ONCE = 4096  # columns of `gaussians`; they then stay in the processor's cache
X86_64 = ("x86_64", "AMD64")  # as Linux and macOS, and as Windows say it
ONE = np.uint64(0x3FF0000000000000)  # the double 1.0, whose last 52 bits are zero


def gaussians(
    uniform: np.ndarray, out: np.ndarray, scale: float = 1.0, room: np.ndarray | None = None
) -> None:
    """Put independent Gaussians (2, m, n) into `out`, from numbers between 1 and 2 (2, 8, n).

    Their standard deviation is `scale`; m is 7, or 8 for what is released in single precision.

    A column has eight pairs u, v. They give eight points of the plane, √(−2 ln u) · (cos 2πv,
    sin 2πv) (Box & Muller). A quarter of their sum is taken from each. That is a reflection
    (Householder), so that the points stay independent Gaussians, and all eight are in each result.

    In double precision the eighth result is never computed. So even who knows the 14 values of a
    column to the last bit knows too little: 16 · 52 = 832 random bits go in. A Gaussian in double
    precision has about 55.5 bits (2 for where it is, 53.5 for the distance to the next double), so
    that 14 have 777. About 2^55 ways lead to each column, and as many to others. None shows what
    the noise was added to. Sums in single precision have 27 bits a value. All 16 have 432, which
    leaves 2^400 ways. This counts on ways that are spread as if by chance;
    tests/fedpriv/test_cipher.py tries both with fewer bits.

    With t = tan πv, cos 2πv is 2 / (1 + t²) − 1 and sin 2πv is 2t / (1 + t²): one tangent is
    cheaper than a sine and a cosine. `uniform` is changed; `out` may be a part of it,
    and `room` (8, n) is for what is computed on the way.
    """
    radius, tangent = uniform
    np.subtract(2, radius, out=radius)  # above 0, up to 1
    np.log(radius, out=radius)
    radius *= -2 * scale**2
    np.sqrt(radius, out=radius)
    tangent *= math.pi
    np.tan(tangent, out=tangent)
    part = np.multiply(tangent, tangent, out=room)
    part += 1
    np.divide(radius, part, out=part)
    part += part
    np.subtract(part, radius, out=radius)
    tangent *= part
    count = uniform.shape[1]
    taken = np.full((1, count), 2 / count) @ uniform  # a product is a faster sum
    np.subtract(uniform[:, : out.shape[1]], taken, out=out)


def key_stream(key: bytes, machine: str) -> CipherContext:
    """A stream of random bytes under a key of 256 bits, by the cipher that is fast on the machine.

    That is AES in counter mode where processors have instructions for it, as those of x86-64, and
    ChaCha20 elsewhere. One key makes one stream, so that nonce and counter may begin at 0.
    """
    if machine in X86_64:
        return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()


class CipherDraws:
    """Draws from a cipher under one key. Whoever lacks the key cannot tell them from chance."""

    def __init__(self, key: bytes, machine: str = platform.machine()) -> None:
        self._stream = key_stream(key, machine)
        self._words, self._room, self._zeros = np.empty(0, np.uint64), np.empty(0), b""

    def words(self, count: int, room: np.ndarray | None = None) -> np.ndarray:
        """The next `count` words of 64 random bits, in `room` if it is given.

        They are zeros, encrypted. The zeros are kept: memory that was never written to takes next
        to none of the processor's cache.
        """
        found = np.empty(count, np.uint64) if room is None else room[:count]
        if len(self._zeros) < found.nbytes:
            self._zeros = bytes(found.nbytes)
        self._stream.update_into(memoryview(self._zeros)[: found.nbytes], found.view(np.uint8).data)
        return found

    def doubles(self, count: int, room: np.ndarray | None = None) -> np.ndarray:
        """Doubles from 1 up to but without 2, each with 52 random bits."""
        found = self.words(count, room)
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

    def blocks(
        self, count: int, scale: float = 1.0, half: int = POINTS - 1
    ) -> Iterator[np.ndarray]:
        """So many Gaussians, a part at a time; the next part takes the memory of the last one.

        `half` of a column's values are the first coordinates of its points; see `gaussians`.

        The memory is kept: to ask the system for it every time costs as much as the cipher.
        """
        most = min(AT_ONCE, math.ceil(count / (2 * half)))
        if len(self._words) < 2 * POINTS * most:
            self._words, self._room = (
                np.empty(2 * POINTS * most, np.uint64),
                np.empty(POINTS * most),
            )
        while count > 0:
            columns = min(AT_ONCE, math.ceil(count / (2 * half)))
            points = self.doubles(2 * POINTS * columns, self._words).reshape(2, POINTS, columns)
            room = self._room[: POINTS * columns].reshape(POINTS, columns)
            gaussians(points, points[:, :half], scale, room)
            for found in points[:, :half]:
                yield found.reshape(-1)[:count]
                count -= min(count, half * columns)

    def normal(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """In double precision whatever was asked for."""
        found, done = np.empty(math.prod(shape)), 0
        for block in self.blocks(len(found)):
            found[done : done + len(block)] = block
            done += len(block)
        return torch.from_numpy(found).view(tuple(shape))

    def add_noise(self, values: Sequence[Tensor], deviation: float) -> None:
        """Noise and sum are in double precision; only the result is rounded."""
        single = all(value.dtype != torch.float64 for value in values)
        count = sum(value.numel() for value in values)
        blocks = self.blocks(count, deviation, POINTS if single else POINTS - 1)
        left = np.empty(0)
        for value in values:
            kind = torch.float32 if value.dtype == torch.float32 else torch.float64
            host = value.detach().to("cpu", kind).contiguous()
            flat, done = host.numpy().reshape(-1), 0
            while done < len(flat):
                left = left if len(left) else next(blocks)
                here = flat[done : done + len(left)]
                np.add(left[: len(here)], here, out=here, casting="same_kind")
                left, done = left[len(here) :], done + len(here)
            if host.data_ptr() != value.data_ptr():
                value.copy_(host)

    def laplace(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """As `normal`: a · b + c · d of four Gaussians is Laplace noise of scale 1."""
        a, b, c, d = self.normal((4, *shape))
        found: Tensor = a.mul_(b).add_(c.mul_(d))
        return found
