"""The clean head gives away every sample's features, and SPN falls for batches too."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.attacks.analytic.separation import separated
from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.clients.plugins.polarization import polarization_loss
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.matching import assignment
from fedpriv.rng import generator
from fedpriv.state import state_of

from .conftest import CLASSES, observe, pictures, psnr, smooth_net


def head_gradient(labels, seed=0, classes=10, width=50):
    """A linear layer, features of a batch, and the gradient of their mean cross-entropy."""
    draw = generator(seed, "head")
    layer = nn.Linear(width, classes)
    with torch.no_grad():
        layer.weight.copy_(torch.rand(classes, width, generator=draw) - 0.5)
        layer.bias.copy_(torch.rand(classes, generator=draw) - 0.5)
    features = torch.rand(len(labels), width, generator=draw)
    loss = cross_entropy(layer(features), labels)
    return layer, features, torch.autograd.grad(loss, [layer.weight, layer.bias])


@pytest.mark.parametrize("labels", [[3, 7], [0, 1, 2, 3, 4, 5], [2, 2, 5], [4, 4, 4, 9]])
def test_features_are_read_exactly(labels):
    labels = torch.tensor(labels)
    layer, features, gradient = head_gradient(labels)
    found, error = separated(*gradient, layer.weight, layer.bias, labels)
    order = torch.cdist(features, found).argmin(1)
    assert error < 1e-6 and sorted(order.tolist()) == list(range(len(labels)))
    assert (found[order] - features).norm() < 0.01 * features.norm()


def test_wrong_labels_are_noticed():
    layer, _, gradient = head_gradient(torch.tensor([3, 7, 8]))
    _, error = separated(*gradient, layer.weight, layer.bias, torch.tensor([3, 7, 9]))
    assert error > 0.01


def polarized(net, x, y, alpha2, seed=0):
    """What a client with a secret head shares of one batch."""
    draw = generator(seed, "secret head")
    *backbone, public = net
    features = nn.Sequential(*backbone)(x)
    secret = torch.rand(64, features.shape[1], generator=draw) * 0.6 - 0.3
    codes = torch.randint(2, (CLASSES, 64), generator=draw) * 2.0 - 1.0
    hidden = polarization_loss(features @ secret.T, codes[y]).mean()
    loss = cross_entropy(public(features), y) + alpha2 * hidden
    gradient = torch.autograd.grad(loss, list(net.parameters()))
    return dict(zip(dict(net.named_parameters()), gradient, strict=True))


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_secret_head_hides_nothing_from_who_knows_of_it(batch):
    net, (x, y) = smooth_net(), pictures(batch)
    facts = {"classes": CLASSES, "input_shape": tuple(x.shape[1:]), "mode": "eval", "model": net}
    seen = Observation.of_gradient(
        state_of(net), polarized(net, x, y, 0.5), batch_size=batch, num_examples=batch, **facts
    )
    informed = ATTACKS.build("spn-aware", {"steps": 100, "joint-steps": 100})([seen])
    blind = ATTACKS.build("idlg", {"steps": 100, "restarts": 1})([seen])
    assert sorted(informed.labels[0].tolist()) == sorted(y.tolist())

    def worst(found):
        order, _ = assignment(found.pixels[0], x)
        return psnr(found.pixels[0][order], x).min()

    assert worst(informed) > 18
    assert worst(informed) > worst(blind) + 5


def test_as_many_samples_as_classes_are_refused(net):
    x, y = pictures(CLASSES)
    with pytest.raises(BadObservation, match="5 samples of 5 classes"):
        ATTACKS.build("spn-aware")(observe(net, x, y, batch=CLASSES))
    with pytest.raises(BadObservation, match="the sum of 2 steps"):
        ATTACKS.build("spn-aware")(observe(net, x[:2], y[:2], batch=2, batch_size=1, local_steps=2))
