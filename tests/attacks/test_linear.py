"""The linear system, its bound, the recursion and the imprint."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedpriv.attacks.analytic.linear import error_bound, solution
from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.errors import BadObservation

from .conftest import CLASSES, observe, pictures, psnr, weighted


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), noise=st.floats(1e-6, 2.0))
def test_the_error_obeys_the_bound(seed, noise):  # SPN theorem 2.2
    stream = torch.Generator().manual_seed(seed)
    x, b = torch.randn(12, generator=stream).double(), torch.randn(6, generator=stream).double()
    w = torch.outer(b, x)
    e_b = noise * torch.randn(6, generator=stream).double()
    e_w = noise * torch.randn(6, 12, generator=stream).double()
    for row in range(6):
        bound = error_bound(b[row], w[row], e_b[row], e_w[row])
        guess = (w[row] + e_w[row]) / (b[row] + e_b[row])
        if torch.isfinite(bound):
            assert (guess - x).norm() / x.norm() <= bound * (1 + 1e-9)
        else:
            assert (e_b[row] / b[row]).abs() >= 1  # condition (2) is broken: nothing is promised


def test_without_noise_it_is_exact():
    x, b = torch.randn(3, 9).double(), torch.randn(3, 5).double()
    torch.testing.assert_close(solution(b, torch.einsum("vo,vi->voi", b, x)), x)


def test_other_first_layers_are_refused(net):
    x, y = pictures(1)
    with pytest.raises(BadObservation, match="first layer is Conv2d"):
        ATTACKS.build("linear")(observe(net, x, y))


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_the_recursion_goes_through_other_activations(activation):
    x, y = pictures(2)
    net = weighted(
        nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            activation(),
            nn.Flatten(),
            nn.Linear(512, 30),
            activation(),
            nn.Linear(30, CLASSES),
        ),
        width=0.3,
    )
    found = ATTACKS.build("recursive")(observe(net, x, y))
    assert psnr(found.pixels[:, 0], x).min() > 30


def test_the_recursion_says_what_it_cannot_take(net):
    x, y = pictures(2)
    pooled = weighted(nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, CLASSES)))
    with pytest.raises(BadObservation, match="AvgPool2d '0' cannot be inverted"):
        ATTACKS.build("recursive")(observe(pooled, x, y))
    with pytest.raises(BadObservation, match="one sample"):
        ATTACKS.build("recursive")(observe(net, x, y, batch=2))
