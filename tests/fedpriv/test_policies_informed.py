"""What an attacker knows who knows the policy."""

import pytest
import torch

from fedpriv.errors import BadOption
from fedpriv.policies import Policy, branches, differentiable
from fedpriv.rng import generator


@pytest.fixture
def x():
    return torch.randint(256, (32, 3, 16, 16), generator=generator(0, "x"), dtype=torch.uint8)


def test_every_transformed_image_is_one_of_the_branches(x):
    policy = Policy.parse("3-1-7+43-18-18")
    seen = policy(x, generator(1)).float() / 255
    guesses = torch.stack([branch(x.float() / 255) for branch in branches(policy)])
    assert len(guesses) == 16
    nearest = (guesses - seen).abs().flatten(2).amax(2).amin(0)
    assert nearest.max() <= 3 / 255


def test_directions_that_do_not_matter_are_no_branches():
    assert len(branches(Policy.parse("0"))) == 1
    assert len(branches(Policy.parse("16-8-3"))) == 2
    assert len(branches(Policy(((0, 3),), probability=0.5))) == 6
    assert [str(branch) for branch in branches(Policy.parse("none"))] == ["none"]


def test_normalised_images_go_in_and_come_out(x):
    policy, mean, std = Policy.parse("1-7-3"), (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
    centre, spread = torch.tensor(mean).view(3, 1, 1), torch.tensor(std).view(3, 1, 1)
    pixels = x.float() / 255
    plain = differentiable(policy, (1, -1, 1))(pixels)
    through = differentiable(policy, (1, -1, 1), mean, std)((pixels - centre) / spread)
    assert torch.allclose(through * spread + centre, plain, atol=1e-5)


def test_victims_may_be_stacked(x):
    through = differentiable(Policy.parse("6-14-9"))
    pixels = x.float() / 255
    stacked = through(pixels.view(4, 8, 3, 16, 16))
    assert torch.allclose(stacked.view_as(pixels), through(pixels))


def test_a_search_behind_the_policy_finds_the_original(x):
    truth = 0.3 + 0.4 * x[:1].float() / 255
    through = differentiable(Policy.parse("43-14-1"), (1, 1, -1))
    seen, guess = through(truth), torch.full_like(truth, 0.5).requires_grad_()
    before = (guess.detach() - truth).square().mean()
    for _ in range(300):
        (slope,) = torch.autograd.grad((through(guess) - seen).square().sum(), guess)
        guess = (guess - 0.5 * slope).detach().requires_grad_()
    error = (guess.detach() - truth).square()
    lost = round(16 * 4 / 9 * 150 / 331)  # rows that the shift pushed out: nothing tells of them
    assert error[:, :, lost:].mean() < before / 100
    assert error[:, :, :lost].mean() > before / 2


def test_a_hybrid_or_wrong_signs_are_refused():
    with pytest.raises(BadOption, match="branches"):
        differentiable(Policy.parse("3-1-7+43-18-18"))
    with pytest.raises(BadOption, match="needs 3 signs"):
        differentiable(Policy.parse("3-1-7"), (1, 2, 1))
