"""Gradients that are added up, summed or clipped make another step than the rate says."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedpriv.clients.noticing import Eyes


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def noted(step, net=None):
    net = net or network()
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    draw = torch.Generator().manual_seed(0)
    x, y = torch.rand(8, 6, generator=draw), torch.randint(3, (8,), generator=draw)
    with Eyes() as eyes, eyes.noting() as notes:
        step(net, optimiser, x, y)
    return notes


def mean(net, optimiser, x, y, times=1.0, reduction="mean", clip=None):
    (times * functional.cross_entropy(net(x), y, reduction=reduction)).backward()
    if clip:
        nn.utils.clip_grad_norm_(net.parameters(), clip)
    optimiser.step()


@pytest.mark.parametrize(
    ("how", "factor"),
    [({}, 1.0), ({"times": 0.25}, 0.25), ({"reduction": "sum"}, 8.0)],
)
def test_a_loss_that_is_no_plain_mean_is_measured(how, factor):
    assert noted(lambda *given: mean(*given, **how)).factor == pytest.approx(factor, rel=1e-3)


def test_clipping_shortens_a_step():
    assert 0 < noted(lambda *given: mean(*given, clip=1e-3)).factor < 0.1


def test_batches_whose_gradients_are_added_up_are_one_step():
    def step(net, optimiser, x, y):
        for part in (slice(0, 4), slice(4, 8)):
            functional.cross_entropy(net(x[part]), y[part]).backward()
        optimiser.step()

    plain = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    notes = noted(step, plain)
    assert (notes.steps, notes.sizes, notes.pieces) == (1, [8], 2)
    assert notes.factor == pytest.approx(2.0, rel=1e-3)


def test_measuring_leaves_the_model_as_it_was():
    net, twin = network(), network()
    notes = noted(mean, net)
    optimiser = torch.optim.SGD(twin.parameters(), 0.1)
    draw = torch.Generator().manual_seed(0)
    mean(twin, optimiser, torch.rand(8, 6, generator=draw), torch.randint(3, (8,), generator=draw))
    assert notes.steps == 1
    for (key, value), other in zip(
        net.state_dict().items(), twin.state_dict().values(), strict=True
    ):
        assert torch.equal(value, other), key


def test_gradients_of_dropout_are_not_taken_for_a_factor():
    net = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 3))
    assert noted(mean, net).factor == 1.0
