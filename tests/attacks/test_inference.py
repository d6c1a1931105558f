"""Membership of single samples, and tracing."""

import pytest
import torch
from torch import nn

from fedpriv.attacks.inference.models import (
    auc,
    confidence,
    likelihood_ratio,
    losses,
    threshold_scores,
    trajectory,
    true_positives_at,
)
from fedpriv.attacks.inference.owners import trace
from fedpriv.errors import BadInput
from fedpriv.rng import generator
from fedpriv.state import state_of


@pytest.fixture(scope="module")
def world():
    """Random labels can only be learnt by heart: members have small losses, and nobody else."""
    stream = generator(0, "world")
    x = torch.randn(80, 12, generator=stream)
    y = torch.randint(3, (80,), generator=stream)

    def fitted(members, rounds=3, seed=0):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3))
        states = []
        for _ in range(rounds):
            for _ in range(30):
                loss = nn.functional.cross_entropy(net(x[members]), y[members])
                gradients = torch.autograd.grad(loss, list(net.parameters()))
                with torch.no_grad():
                    for value, gradient in zip(net.parameters(), gradients, strict=True):
                        value -= 0.5 * gradient
            states.append(state_of(net))
        return net, states

    members = torch.arange(80) < 40
    return x, y, members, fitted


def test_losses_betray_members(world):
    x, y, members, fitted = world
    net, states = fitted(members)
    scores = threshold_scores(losses(net, states[-1], x, y))
    assert auc(scores, members) > 0.8
    assert true_positives_at(scores, members, 0.1) > 0.2


def test_references_and_rounds_betray_more(world):
    x, y, members, fitted = world
    net, states = fitted(members)
    target = trajectory(net, states, x, y)
    assert target.shape == (3, 80)
    halves = [torch.randperm(80, generator=generator(i, "half")) < 40 for i in range(12)]
    shadows = torch.stack(
        [trajectory(*fitted(half, seed=i + 1), x, y) for i, half in enumerate(halves)]
    )
    masks = torch.stack(halves)
    plain = auc(threshold_scores(losses(net, states[-1], x, y)), members)
    online = auc(likelihood_ratio(target, shadows, masks), members)
    last = auc(likelihood_ratio(target[-1], shadows[:, -1], masks), members)
    assert online > 0.85
    assert min(online, last) > plain - 0.05


def test_the_offline_ratio_by_hand():
    references = torch.tensor([[0.0, 1.0], [2.0, 5.0]])
    nobody = torch.zeros(2, 2, dtype=torch.bool)
    score = likelihood_ratio(torch.tensor([3.0, 3.0]), references, nobody)
    spread = ((1 + 1 + 4 + 4) / 2) ** 0.5  # two degrees of freedom are spent on the means
    torch.testing.assert_close(score.float(), torch.tensor([2 / spread, 0.0]))


def test_confidence_is_the_logit():
    p = torch.tensor([0.25, 0.9])
    torch.testing.assert_close(confidence(-p.log()), torch.logit(p))


def test_auc_against_its_definition():
    scores = torch.tensor([3.0, 1.0, 2.0, 1.0])
    members = torch.tensor([True, True, False, False])
    assert auc(scores, members) == (1 + 1 + 0 + 0.5) / 4


def test_bad_input():
    with pytest.raises(BadInput, match="references must be"):
        likelihood_ratio(torch.zeros(3), torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool))
    with pytest.raises(BadInput, match="never saw it"):
        likelihood_ratio(torch.zeros(3), torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(BadInput, match="members and non-members"):
        auc(torch.zeros(2), torch.tensor([True, True]))
    with pytest.raises(BadInput, match="at least one round"):
        trajectory(nn.Linear(1, 2), [], torch.zeros(1, 1), torch.zeros(1))


def test_the_nearest_reconstruction_names_the_participant():  # SPN alg. 6
    stream = generator(0, "trace")
    x = torch.rand(30, 1, 4, 4, generator=stream)
    owners = torch.arange(30) % 3
    guesses = x + 0.05 * torch.randn(x.shape, generator=stream)
    found = trace(x, guesses, owners, chunk=1)
    assert found.participants.tolist() == owners.tolist()
    assert found.nearest.tolist() == list(range(30))
    torch.testing.assert_close(found.mse, (x - guesses).square().flatten(1).mean(1))


def test_noise_cannot_be_traced():
    x = torch.rand(60, 1, 4, 4, generator=generator(0, "a"))
    guesses = torch.rand(60, 1, 4, 4, generator=generator(0, "b"))
    hits = (trace(x, guesses, torch.arange(60) % 3).participants == torch.arange(60) % 3).double()
    assert hits.mean() < 0.7


def test_tracing_refuses_what_does_not_fit():
    with pytest.raises(BadInput, match="one owner per reconstruction"):
        trace(torch.zeros(1, 2), torch.zeros(2, 2), torch.zeros(1))
    with pytest.raises(BadInput, match="one shape"):
        trace(torch.zeros(1, 3), torch.zeros(2, 2), torch.zeros(2))
