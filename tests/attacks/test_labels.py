"""Labels and features from the last layer's gradient."""

import pytest
import torch
from torch import nn

from fedpriv.attacks.analytic.head import head_of
from fedpriv.attacks.inversion.features import features_of
from fedpriv.attacks.inversion.labels import class_counts, from_sign
from fedpriv.errors import BadObservation
from fedpriv.evidence.victims import stack

from .conftest import CLASSES, observe, pictures, smooth_net, weighted


def test_one_sample_is_read_exactly(seen):
    observations, _, y = seen
    assert from_sign(stack(observations), [0] * 3, 0).flatten().tolist() == y.tolist()


def test_one_sample_without_a_bias():
    net = weighted(
        nn.Sequential(
            nn.Flatten(), nn.Linear(64, 16), nn.Sigmoid(), nn.Linear(16, CLASSES, bias=False)
        )
    )
    x, y = pictures(4)
    assert from_sign(stack(observe(net, x, y)), [0] * 4, 0).flatten().tolist() == y.tolist()


def test_a_batch_is_counted():
    x, y = pictures(24)
    y = torch.arange(24) % 3 + (torch.arange(24) > 20).long()
    victims = stack(observe(smooth_net(), x, y, batch=8))
    found = from_sign(victims, [0] * 3, 0)
    for row in range(3):
        assert found[row].tolist() == y[row * 8 : (row + 1) * 8].sort().values.tolist()


def test_counts_always_add_up():
    stream = torch.Generator().manual_seed(0)
    for batch in (1, 3, 50):
        bias = torch.randn(20, 7, generator=stream)
        counts = class_counts(
            torch.randn(20, 7, 4, generator=stream),
            bias,
            torch.randn(7, 4, generator=stream),
            torch.zeros(7),
            batch,
        )
        assert counts.sum(1).tolist() == [batch] * 20
        assert counts.min() >= 0


def test_features_are_read_exactly(seen):
    observations, x, _ = seen
    victims = stack(observations)
    head = head_of(victims)
    found = features_of(head.weight, head.bias)
    with torch.no_grad():
        torch.testing.assert_close(found, victims.model[:-1](x), atol=1e-4, rtol=1e-3)


def test_a_model_without_a_head(net):
    x, y = pictures(1)
    seen = observe(nn.Sequential(nn.Conv2d(1, 5, 8, bias=False), nn.Flatten()).eval(), x, y)
    with pytest.raises(BadObservation, match="no linear layer with 5 outputs"):
        from_sign(stack(seen), [0], 0)


def test_a_model_that_ends_in_a_convolution():
    x, y = pictures(3)
    net = nn.Sequential(nn.Conv2d(1, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    assert from_sign(stack(observe(net, x, y)), [0] * 3, 0).flatten().tolist() == y.tolist()
