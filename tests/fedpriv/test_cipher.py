"""Noise from the cipher has the distribution it is named after, and its values are independent."""

import numpy as np
import pytest
import torch
from scipy import stats

from fedpriv.cipher import AT_ONCE, POINTS, X86_64, CipherDraws, gaussians

KEY = bytes(range(32))
WIDTH = 2 * (POINTS - 1)


@pytest.mark.parametrize("machine", [X86_64[0], "aarch64"])
@pytest.mark.parametrize(("kind", "law"), [("normal", "norm"), ("laplace", "laplace")])
def test_noise_follows_its_law(kind, law, machine):
    found = getattr(CipherDraws(KEY, machine), kind)((200_000,)).numpy()
    assert found.dtype == np.float64
    assert stats.kstest(found, law).pvalue > 1e-3


@pytest.mark.parametrize("half", [POINTS - 1, POINTS])
def test_values_of_a_column_are_independent(half):
    """Neither they nor their squares go together; the points that they share would show."""
    n = 100_000
    rows = np.empty((2, half, n))
    gaussians(CipherDraws(KEY).doubles(2 * POINTS * n).reshape(2, POINTS, n), rows)
    rows = rows.reshape(2 * half, n)
    for values in (rows, rows**2, np.abs(rows)):
        off = np.corrcoef(values) - np.eye(2 * half)
        assert np.abs(off).max() < 5 / n**0.5
    assert stats.kstest((rows**2).sum(0), stats.chi2(2 * half).cdf).pvalue > 1e-3


def test_a_column_is_a_reflection_of_box_and_mullers_points():
    u, v = np.random.default_rng(1).uniform(1, 2, (2, POINTS, 5))
    radius = np.sqrt(-2 * np.log(2 - u))
    points = np.stack([radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)])
    mirror = np.eye(POINTS) - 2 / POINTS
    np.testing.assert_allclose(mirror @ mirror.T, np.eye(POINTS), atol=1e-15)
    found = np.empty((2, POINTS - 1, 5))
    gaussians(np.stack([u, v]), found)
    np.testing.assert_allclose(found, (mirror @ points)[:, :-1], atol=1e-12)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (WIDTH * AT_ONCE + 1,)])
def test_noise_of_any_shape_comes_and_never_twice(shape):
    draws = CipherDraws(KEY)
    one, other = draws.normal(shape), draws.normal(shape)
    assert one.shape == other.shape == torch.Size(shape)
    assert not set(one.flatten().tolist()) & set(other.flatten().tolist())
    assert torch.equal(one, CipherDraws(KEY).normal(shape))


@pytest.mark.parametrize("double", [True, False])
def test_a_sum_is_rounded_once_and_takes_the_same_noise(double):
    sizes = [(5, 3), (0,), (WIDTH * AT_ONCE,), (), (7,)]
    values = [torch.full(size, 1e-3) for size in sizes]
    values[0] = torch.full((3, 5), 1e-3).T  # not contiguous
    values.append(torch.full((4,), 1e-3, dtype=torch.float64))
    values.append(torch.full((4,), 1e-3, dtype=torch.bfloat16))
    if not double:
        values = [value for value in values if value.dtype != torch.float64]
    count, half = sum(value.numel() for value in values), POINTS - double
    noise = torch.from_numpy(
        np.concatenate([block.copy() for block in CipherDraws(KEY).blocks(count, 0.5, half)])
    )
    parts = noise.split([value.numel() for value in values])
    wanted = [
        (part + value.double().flatten()).to(value.dtype).view(value.shape)
        for part, value in zip(parts, values, strict=True)
    ]
    CipherDraws(KEY).add_noise(values, 0.5)
    for value, exact in zip(values, wanted, strict=True):
        torch.testing.assert_close(
            value, exact, rtol=2e-7 if value.dtype != torch.bfloat16 else 0.01, atol=0
        )


# The enemy knows a released pair of noise and gradient, guesses the gradient, and asks whether the
# rest can be noise at all (Mironov 2012). With the wrong guess it hardly ever can.


def box_muller(u, v):
    """The points that `gaussians` mixes, by the same arithmetic."""
    radius, tangent = np.sqrt(np.log(2 - u) * -2), np.tan(v * np.pi)
    part = radius / (tangent * tangent + 1)
    part = part + part
    return part - radius, tangent * part


def could_be_a_point(x, y, near=3):
    """For each pair, whether numbers of 52 bits near its inverse give exactly this pair."""
    u = np.rint(-np.expm1(-(x * x + y * y) / 2) * 2**52)
    v = np.rint(np.arctan2(y, x) / (2 * np.pi) % 1 * 2**52)
    found = np.zeros(x.shape, bool)
    for i in range(-near, near + 1):
        for j in range(-near, near + 1):
            near_u = 1 + np.clip(u + i, 0, 2**52 - 1) * 2.0**-52
            near_v = 1 + (v + j) % 2**52 * 2.0**-52
            px, py = box_muller(near_u, near_v)
            found |= (px == x) & (py == y)
    return found.mean()


def test_noise_cannot_be_told_by_its_last_bits():
    n = 7000
    x, y = box_muller(*CipherDraws(KEY).doubles(2 * n).reshape(2, n))
    assert could_be_a_point(x, y) == 1  # the test finds out a plain Box & Muller
    assert could_be_a_point(x + 0.001, y) < 0.03
    found = np.empty((2, POINTS - 1, n // 7))
    gaussians(CipherDraws(KEY).doubles(16 * n // 7).reshape(2, POINTS, n // 7), found)
    x, y = found.reshape(2, -1)
    assert could_be_a_point(x, y) < 0.03


def small_world(draw, points, bits, n, released):
    """Noise from uniform numbers of few bits; one point alone is not mixed."""
    u = 1 + draw.integers(0, 2**bits, (2, points, n)) * 2.0**-bits
    if points == 1:
        return np.concatenate(box_muller(*u))
    found = np.empty((2, released, n))
    gaussians(u, found)
    return found.reshape(-1, n)


def cells(noise, grid, shift):
    """Each column as one number: its place on a grid, after its first value was moved."""
    places = np.rint(noise / grid).astype(np.int64)
    places[0] += shift
    return np.ravel_multi_index(np.clip(places + 200, 0, 399), (400,) * len(places))


def meetings(a, b):
    """How many pairs of a column here and a column there lie in the same cell."""
    a, b = np.sort(a), np.sort(b)
    return int((np.searchsorted(b, a, "right") - np.searchsorted(b, a, "left")).sum())


@pytest.mark.parametrize(
    ("points", "released", "grid", "n"),
    [(1, 1, 2.0**-4, 2**12), (3, 2, 2.0**-4, 2**17), (3, 3, 2.0**-2, 2**17)],
)
def test_enough_ways_lead_to_every_value(points, released, grid, n):
    """The counting argument of `gaussians`, where it can be tried: 6 bits, a grid of 1/16 or 1/4.

    Two points of three on the fine grid, or all on the coarse one, have about 24 bits, from 36. If
    values had holes, two releases of the same sum would meet more often than two of sums that
    differ by one cell. Those of plain points do: 12 bits for 12.
    """
    draw = np.random.default_rng(8)
    one, other, third = (small_world(draw, points, 6, n, released) for _ in range(3))
    same = meetings(cells(one, grid, 0), cells(other, grid, 0))
    moved = meetings(cells(one, grid, 0), cells(third, grid, 1))
    assert same > 500
    spread = 6 * (1 / same + 1 / max(moved, 1)) ** 0.5
    if points == 1:
        assert moved / same < 1 - spread
    else:
        assert abs(moved / same - 1) < spread
