"""Distances against plain loops, and gradients against autograd."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.engine import gradients
from fedpriv.engine.gradients import Outer, as_trained, gradient_of, gradients_at, soft


@pytest.fixture
def pair():
    torch.manual_seed(0)
    rows, columns = torch.randn(2, 3, 4), torch.randn(2, 3, 5)
    found = {"w": Outer(rows, columns), "b": torch.randn(2, 4)}
    target = {"w": torch.randn(2, 4, 5), "b": torch.randn(2, 4)}
    flat = [torch.cat([found["w"].dense()[v].flatten(), found["b"][v]]) for v in range(2)]
    aim = [torch.cat([target["w"][v].flatten(), target["b"][v]]) for v in range(2)]
    return found, target, flat, aim


def test_outer_products_are_never_needed_dense(pair):
    found, target, _, _ = pair
    dense = torch.stack(
        [
            sum(torch.outer(r, c) for r, c in zip(*rc, strict=True))
            for rc in zip(found["w"].rows, found["w"].columns, strict=True)
        ]
    )
    torch.testing.assert_close(found["w"].dense(), dense)
    torch.testing.assert_close(found["w"].inner(target["w"]), (dense * target["w"]).sum((1, 2)))
    torch.testing.assert_close(found["w"].square(), dense.square().sum((1, 2)))


@pytest.mark.parametrize(
    ("name", "slow"),
    [
        ("l2", lambda a, b: (a - b).square().sum()),
        ("l1", lambda a, b: (a - b).abs().sum()),
        ("cosine", lambda a, b: 1 - nn.functional.cosine_similarity(a, b, 0)),
    ],
)
def test_distances_are_those_of_the_whole_gradient(pair, name, slow):
    found, target, flat, aim = pair
    expected = torch.stack([slow(a, b) for a, b in zip(flat, aim, strict=True)])
    torch.testing.assert_close(getattr(gradients, name)(found, target), expected)


def test_layerwise_cosine_is_a_mean_over_parameters(pair):
    found, target, _, _ = pair
    parts = [
        1
        - nn.functional.cosine_similarity(
            gradients.dense(found[k]).flatten(1), target[k].flatten(1)
        )
        for k in target
    ]
    torch.testing.assert_close(
        gradients.layerwise_cosine(found, target), torch.stack(parts).mean(0)
    )


def test_pruned_elements_do_not_count(pair):
    found, target, _, _ = pair
    target["w"][:, 0] = 0
    masked = gradients.where_shared(gradients.l2)(found, target)
    rest = (found["w"].dense()[:, 1:] - target["w"][:, 1:]).square().sum((1, 2))
    torch.testing.assert_close(masked, rest + (found["b"] - target["b"]).square().sum(1))


def test_a_vanished_gradient_has_a_distance():
    zero, one = {"w": torch.zeros(1, 3)}, {"w": torch.ones(1, 3)}
    assert gradients.cosine(zero, one).tolist() == [1.0]


def test_labels_as_indices_and_as_logits():
    assert soft(torch.tensor([[2]]), 3).tolist() == [[[0, 0, 1]]]
    torch.testing.assert_close(soft(torch.zeros(1, 1, 4), 4), torch.full((1, 1, 4), 0.25))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("shared", [True, False])
def test_gradients_of_many_are_those_of_each(mode, shared):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(12, 4),
    )
    x, y = torch.randn(2, 3, 2, 4, 4), torch.randint(4, (2, 3))
    client = as_trained(net, mode)
    weights = {k: v.detach() for k, v in client.named_parameters()}
    buffers = {k: v for k, v in client.named_buffers() if v.is_floating_point()}
    if not shared:
        weights = {k: torch.stack([v, v * 1.5]) for k, v in weights.items()}
        buffers = {k: torch.stack([v, v + 0.5]) for k, v in buffers.items()}
    found = gradients_at(client, weights, buffers, shared, x, soft(y, 4))
    net.train(mode == "train")
    net[3].eval()
    for v in range(2):
        with torch.no_grad():
            for key, value in net.state_dict().items():
                source = {**weights, **buffers}
                if key in source:
                    value.copy_(source[key] if shared else source[key][v])
        plain = torch.autograd.grad(cross_entropy(net(x[v]), y[v]), list(net.parameters()))
        for (key, _), value in zip(net.named_parameters(), plain, strict=True):
            torch.testing.assert_close(found[key][v], value, atol=1e-6, rtol=1e-4)


def test_gradient_of_uses_the_models_own_weights():
    torch.manual_seed(0)
    net, x, y = nn.Linear(3, 2), torch.randn(4, 3), torch.randint(2, (4,))
    expected = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
    for value, other in zip(gradient_of(net, x, y).values(), expected, strict=True):
        torch.testing.assert_close(value, other)
