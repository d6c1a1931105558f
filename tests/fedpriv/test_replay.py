"""The replay of local training against torch.optim itself."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.eager import skip_compiler
from fedpriv.engine.replay import batches, step_rule
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.state import state_of

skip_compiler()

RULES = {
    "plain": ("sgd", {}, lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (
        "sgd",
        {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    ),
    "adam": (
        "adam",
        {"weight_decay": 0.01},
        lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.01),
    ),
    "adamw": (
        "adamw",
        {"weight_decay": 0.1},
        lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_it_is_what_the_client_does(name):
    optimiser, facts, make = RULES[name]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    sent = state_of(net)
    x, y = torch.randn(5, 6), torch.randint(3, (5,))
    steps = make(net.parameters())
    for slots in ([0, 1], [2, 3], [4], [0, 1]):
        steps.zero_grad()
        cross_entropy(net(x[slots]), y[slots]).backward()
        steps.step()
    seen = Observation(
        sent=sent,
        received=state_of(net),
        classes=3,
        input_shape=(6,),
        lr=0.1,
        optimiser=optimiser,
        local_steps=4,
        batch_size=2,
        num_examples=5,
        model=net,
        **facts,
    )
    found = {key: value[0] for key, value in stack([seen]).update_at(x[None], y[None]).items()}
    for key, value in seen.delta.items():
        torch.testing.assert_close(found[key], value, atol=2e-5, rtol=1e-3)


def test_it_is_differentiable():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 2)).double()
    seen = Observation(
        sent=state_of(net),
        received=state_of(net),
        classes=2,
        input_shape=(4,),
        lr=0.5,
        local_steps=3,
        num_examples=1,
        model=net.float(),
    )
    victims = stack([seen])
    x = torch.randn(1, 1, 4, requires_grad=True)
    size = sum(value.square().sum() for value in victims.update_at(x, torch.tensor([[1]])).values())
    (slope,) = torch.autograd.grad(size, x)
    h = 1e-2
    for i in range(4):
        step = torch.zeros_like(x)
        step[..., i] = h
        ends = [
            sum(v.square().sum() for v in victims.update_at(x + s, torch.tensor([[1]])).values())
            for s in (step, -step)
        ]
        assert float(slope[0, 0, i]) == pytest.approx(
            (ends[0] - ends[1]).item() / (2 * h), rel=2e-2, abs=1e-4
        )


@pytest.mark.parametrize("name", RULES)
def test_one_client_is_replayed_as_one_of_many(name):
    """Alone it goes through autograd, beside others through vmap."""
    optimiser, facts, _ = RULES[name]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    seen = Observation(
        sent=state_of(net),
        received=state_of(net),
        classes=3,
        input_shape=(6,),
        lr=0.1,
        optimiser=optimiser,
        local_steps=3,
        batch_size=2,
        num_examples=4,
        model=net,
        **facts,
    )
    x, y = torch.randn(2, 4, 6, requires_grad=True), torch.randint(3, (2, 4))
    both = stack([seen, replace(seen, node=1)]).update_at(x, y)
    alone = [stack([seen]).update_at(x[v : v + 1], y[v : v + 1]) for v in range(2)]
    for key, value in both.items():
        joined = torch.cat([one[key] for one in alone])
        torch.testing.assert_close(joined, value)
        slopes = [
            torch.autograd.grad(part.square().sum(), x, retain_graph=True)[0]
            for part in (joined, value)
        ]
        torch.testing.assert_close(*slopes)


def test_slots_come_round():
    assert [b.tolist() for b in batches(5, 2, 4)] == [[0, 1], [2, 3], [4], [0, 1]]


def test_an_optimiser_that_cannot_be_replayed():
    with pytest.raises(BadObservation, match="'lion' cannot be replayed"):
        step_rule("lion", 0.1, 0, 0, False)
