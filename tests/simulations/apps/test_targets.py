"""Regressions, autoencoders and masks: a sample brings its target along."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedpriv.clients.noticing import Eyes
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.simulations.apps.adapting import adapted
from fedpriv.simulations.apps.support import NotSupported
from fedpriv.simulations.apps.targets import brought_along, target_of


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Autoencoder(nn.Module):
    """It is called part by part, as Lightning's are."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 3), nn.Tanh())
        self.decoder = nn.Sequential(nn.Linear(3, 6))

    def loss(self, x):
        return functional.mse_loss(self.decoder(self.encoder(x)), x)


class Masks(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def cases():
    draw = torch.Generator().manual_seed(0)
    x, pictures = torch.rand(5, 6, generator=draw), torch.rand(5, 1, 4, 4, generator=draw)
    numbers = torch.rand(5, 2, generator=draw)
    masks = torch.randint(3, (5, 4, 4), generator=draw)
    return {
        "mse": (Regression(), lambda net: functional.mse_loss(net(x), numbers)),
        "l1": (Regression(), lambda net: functional.l1_loss(net(x), numbers)),
        "several labels": (
            Regression(),
            lambda net: functional.binary_cross_entropy_with_logits(net(x), numbers.round()),
        ),
        "autoencoder": (Autoencoder(), lambda net: net.loss(x)),
        "masks": (Masks(), lambda net: functional.cross_entropy(net(pictures), masks)),
    }


@pytest.mark.parametrize("name", cases())
def test_the_gradient_that_attacks_compute_is_the_apps_own(name):
    net, loss = cases()[name]
    sent = {key: value.clone() for key, value in net.state_dict().items()}
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    with Eyes() as eyes, eyes.noting() as notes:
        loss(net).backward()
        own = {key: value.grad.clone() for key, value in net.named_parameters()}
        optimiser.step()
    target = target_of(notes)
    assert target is not None and target.whole == (name == "masks")
    brought_along(notes, target)
    seen = Observation(
        sent=sent,
        received=sent,
        classes=2,
        input_shape=target.shape,
        lr=0.1,
        batch_size=5,
        num_examples=5,
        model=adapted(notes, sent, target),
    )
    found = stack([seen]).gradient_at(notes.x[0][None], notes.y[0][None])
    for key, value in own.items():
        torch.testing.assert_close(found[key][0], value, atol=1e-6, rtol=1e-4)


def test_classes_need_no_target():
    net = nn.Linear(6, 3)
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    with Eyes() as eyes, eyes.noting() as notes:
        functional.cross_entropy(net(torch.rand(4, 6)), torch.tensor([0, 1, 2, 0])).backward()
        optimiser.step()
    assert target_of(notes) is None


def test_models_that_are_trained_side_by_side_are_refused():
    one, other = nn.Linear(6, 3), nn.Linear(6, 3)
    optimiser = torch.optim.SGD([*one.parameters(), *other.parameters()], 0.1)
    x, y = torch.rand(4, 6), torch.tensor([0, 1, 2, 0])
    with Eyes() as eyes, eyes.noting() as notes:
        (functional.cross_entropy(one(x), y) + functional.cross_entropy(other(x), y)).backward()
        optimiser.step()
    with pytest.raises(NotSupported, match="several models side by side"):
        adapted(notes, one.state_dict())
