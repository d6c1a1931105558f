"""ARS eq. 9, 12, 14, 15 against slow versions, and the bound of proposition 1 as a property."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.codes.perturbation import (
    blended,
    budget,
    half_and_half,
    misleading,
    random_mask,
    spread,
    toward,
)
from fedpriv.errors import BadOption


def world(
    seed: int, samples: int = 4, code: int = 6
) -> tuple[torch.Tensor, torch.Tensor, nn.Module]:
    torch.manual_seed(seed)
    decoder = nn.Sequential(nn.Linear(code, 8), nn.ReLU(), nn.Linear(8, 5))
    return torch.randn(samples, code), torch.randn(samples, 5), decoder.requires_grad_(False)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 99),
    epsilon=st.floats(0, 100),
    steps=st.integers(1, 12),
    share=st.floats(0.1, 0.9),
)
def test_no_coordinate_moves_by_more_than_epsilon_and_masked_ones_stay(seed, epsilon, steps, share):
    z, x, decoder = world(seed)
    mask = random_mask((6,), torch.Generator().manual_seed(seed), share)
    noisy = misleading(z, x, decoder, epsilon, steps, mask)
    assert ((noisy - z).abs() <= epsilon * (1 + 1e-5) + 1e-6).all()
    assert torch.equal(noisy[:, mask == 0], z[:, mask == 0])


@settings(max_examples=15)
@given(seed=st.integers(0, 99), epsilon=st.floats(0.01, 3))
def test_a_relative_budget_bounds_every_coordinate_by_its_own_spread(seed, epsilon):
    z, x, decoder = world(seed, samples=16)
    bound = budget(z, epsilon, relative=True)
    assert torch.allclose(bound, epsilon * spread(z))
    assert ((misleading(z, x, decoder, bound) - z).abs() <= bound * (1 + 1e-5) + 1e-6).all()


def test_misleading_is_equation_12_one_sample_and_one_step_at_a_time():
    z, x, decoder = world(3)
    mask, epsilon, steps = torch.tensor([1.0, 0, 1, 1, 0, 1]), 0.7, 5
    slow = z.clone()
    for i in range(len(z)):
        for _ in range(steps):
            point = slow[i].clone().requires_grad_(True)
            ((decoder(point[None])[0] - x[i]) ** 2).sum().backward()
            slow[i] = slow[i] + epsilon / steps * torch.sign(mask * point.grad)
    torch.testing.assert_close(misleading(z, x, decoder, epsilon, steps, mask), slow)


def test_misleading_harms_the_decoder_more_than_random_signs_of_the_same_size():
    z, x, decoder = world(5, samples=32)

    def error(codes: torch.Tensor) -> float:
        return float((decoder(codes) - x).square().mean())

    signs = torch.randn(z.shape, generator=torch.Generator().manual_seed(0)).sign()
    assert error(misleading(z, x, decoder, 1.0)) > 1.1 * error(z + signs) > error(z)


def test_toward_is_equation_14():
    z, _, network = world(7)
    noise = toward(z, network, target=2, epsilon=0.3)
    for i in range(len(z)):
        point = z[i].clone().requires_grad_(True)
        cross_entropy(network(point[None]), torch.tensor([2])).backward()
        torch.testing.assert_close(noise[i], -0.3 * point.grad.sign())


def test_a_blend_is_equation_15_and_stays_within_epsilon():
    z, x, decoder = world(9)
    noises = [misleading(z, x, decoder, 0.5) - z, toward(z, decoder, 0, 0.5)]
    total = blended(noises, [0.5, 0.5])
    torch.testing.assert_close(total, 0.5 * noises[0] + 0.5 * noises[1])
    assert total.abs().max() <= 0.5 + 1e-6


def test_the_papers_weights_give_half_to_pixels_and_share_the_rest():
    assert half_and_half(0) == [1.0]
    assert half_and_half(2) == [0.5, 0.25, 0.25]


@pytest.mark.parametrize("weights", [[0.5], [0.7, 0.7], [1.5, -0.5]])
def test_weights_that_break_the_bound_are_refused(weights):
    z = torch.zeros(1, 2)
    with pytest.raises(BadOption):
        blended([z, z], weights)
