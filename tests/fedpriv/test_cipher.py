"""Noise from the cipher has the distribution it is named after, and its values are independent."""

import numpy as np
import pytest
import torch
from scipy import stats

from fedpriv.cipher import AT_ONCE, POINTS, CipherDraws, gaussians

KEY = bytes(range(32))
WIDTH = 2 * (POINTS - 1)


@pytest.mark.parametrize(("kind", "law"), [("normal", "norm"), ("laplace", "laplace")])
def test_noise_follows_its_law(kind, law):
    found = getattr(CipherDraws(KEY), kind)((200_000,)).numpy()
    assert found.dtype == np.float64
    assert stats.kstest(found, law).pvalue > 1e-3


def test_values_of_a_column_are_independent():
    """Neither they nor their squares go together; the points that they share would show."""
    n = 100_000
    rows = np.empty((2, POINTS - 1, n))
    gaussians(CipherDraws(KEY).doubles(2 * POINTS * n).reshape(2, POINTS, n), rows)
    rows = rows.reshape(WIDTH, n)
    for values in (rows, rows**2, np.abs(rows)):
        off = np.corrcoef(values) - np.eye(WIDTH)
        assert np.abs(off).max() < 5 / n**0.5
    assert stats.kstest((rows**2).sum(0), stats.chi2(WIDTH).cdf).pvalue > 1e-3


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
