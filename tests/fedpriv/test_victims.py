"""Victims side by side: each has the gradient of its own observation."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.state import state_of

LR, DECAY = 0.3, 0.1
SHAPE = (4,)


@pytest.fixture
def net():
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def step_seen(net, sent, gradient, **facts):
    """The observation of one SGD step with weight decay from `sent`: w − lr (g + decay · w)."""
    received = {key: value - LR * (gradient[key] + DECAY * value) for key, value in sent.items()}
    return Observation(
        sent=sent,
        received=received,
        classes=2,
        input_shape=SHAPE,
        lr=LR,
        weight_decay=DECAY,
        **facts,
    ).on(net)


def randoms(state):
    return {key: torch.randn_like(value) for key, value in state.items()}


@pytest.mark.parametrize("shared", [True, False])
def test_their_gradient_is_that_of_the_step_without_the_weight_decay(net, shared):
    first = state_of(net)
    sent = [first, first if shared else randoms(first)]
    gradients = [randoms(first), randoms(first)]
    seen = [
        step_seen(net, state, gradient, node=node)
        for node, (state, gradient) in enumerate(zip(sent, gradients, strict=True))
    ]
    victims = stack(seen)
    assert victims.shared is shared
    for key in first:
        truth = torch.stack([gradient[key] for gradient in gradients])
        assert_close(victims.gradient[key], truth, rtol=1e-4, atol=1e-5)
        alone = torch.stack([one.gradient[key] for one in seen])
        assert_close(victims.gradient[key], alone, rtol=1e-4, atol=1e-5)


def test_steps_and_nesterov_momentum_divide_the_change(net):
    first = state_of(net)
    delta = {key: torch.ones_like(value) for key, value in first.items()}
    seen = Observation(
        sent=first,
        received={key: value + delta[key] for key, value in first.items()},
        classes=2,
        input_shape=SHAPE,
        lr=0.5,
        local_steps=4,
        num_examples=4,
        momentum=0.5,
        nesterov=True,
    ).on(net)
    for value in stack([seen]).gradient.values():
        assert_close(value, torch.full_like(value, -1 / (0.5 * 4 * 1.5)))
