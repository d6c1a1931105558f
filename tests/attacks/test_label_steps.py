"""Labels of several local steps: the replay of the last layer, and what it finds."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.attacks.inversion.control import leaves
from fedpriv.attacks.inversion.label_steps import Trained, present, refined
from fedpriv.attacks.inversion.labels import from_sign
from fedpriv.catalogue import MODELS
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.rng import generator
from fedpriv.state import state_of

CLASSES, WIDTH = 12, 16


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_the_replay_is_the_training_of_a_last_layer(momentum, nesterov):
    """One feature vector for all samples, against torch.optim itself."""
    torch.manual_seed(0)
    head, phi = nn.Linear(WIDTH, CLASSES), torch.rand(WIDTH)
    start = head.bias.detach().clone()
    with torch.no_grad():
        logits = head(phi)
    rule = torch.optim.SGD(head.parameters(), lr=0.1, momentum=momentum, nesterov=nesterov)
    labels, order = torch.tensor([3, 3, 7, 1, 0]), ((0, 1), (2, 3), (4,), (0, 1))
    for slots in order:
        rule.zero_grad()
        cross_entropy(head(phi.expand(len(slots), -1)), labels[list(slots)]).backward()
        rule.step()
    one = Trained(logits, float(phi.square().sum()) + 1, 0.1, momentum, nesterov, order)
    torch.testing.assert_close(one.moved(labels[None])[0], head.bias.detach() - start)


def test_labels_and_their_order_are_found():
    stream = generator(0, "z")
    one = Trained(torch.randn(CLASSES, generator=stream), 3.0, 0.1, 0.0, False, ((0,), (1,), (2,)))
    truth = torch.tensor([5, 2, 9])
    seen = one.moved(truth[None])

    def error(labels):
        return (one.moved(labels) - seen).square().sum(1)

    found, left = refined(error, torch.tensor([9, 9, 5]), CLASSES)
    assert found.tolist() == truth.tolist() and left < 1e-9
    swapped, _ = refined(error, torch.tensor([9, 2, 5]), 0)
    assert swapped.tolist() == truth.tolist()


def test_rows_of_absent_classes_are_multiples_of_the_features():
    stream = generator(0, "rows")
    phi = torch.rand(3, WIDTH, generator=stream)
    delta = torch.full((3, CLASSES), -0.02)
    delta[0, 4], delta[1, 4], delta[1, 6], delta[2, 6], delta[2, 1] = 0.9, -0.9, 0.9, -0.9, 0.9
    weight, bias = delta.T @ phi, delta.sum(0)  # 4 and 6 have vanished from the biases
    found = present(weight, bias, bias @ weight / bias.square().sum(), 3)
    assert found.tolist() == [1, 4, 6]


@pytest.mark.parametrize(("scale", "batch"), [(0.3, 1), (0.3, 2), (6.0, 1)])
def test_a_client_of_several_steps_is_read(scale, batch):
    """With small features, and with features so large that every step turns the prediction
    round.
    """
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, WIDTH), nn.Sigmoid(), nn.Linear(WIDTH, CLASSES))
    with torch.no_grad():
        net[0].weight.mul_(3)
    grow = nn.Sequential(net[0], net[1], Times(scale), net[2])
    sent = state_of(grow)
    x, y = torch.randn(4, 20), torch.tensor([8, 3, 10, 1])
    rule = torch.optim.SGD(grow.parameters(), lr=0.1)
    for k in range(4 // batch):
        rule.zero_grad()
        own = slice(k * batch, (k + 1) * batch)
        cross_entropy(grow(x[own]), y[own]).backward()
        rule.step()
    seen = Observation(
        sent=sent,
        received=state_of(grow),
        classes=CLASSES,
        input_shape=(20,),
        lr=0.1,
        local_steps=4 // batch,
        batch_size=batch,
        num_examples=4,
        model=grow,
    )
    found = from_sign(stack([seen]), [0], 0)[0]
    assert found.sort().values.tolist() == y.sort().values.tolist()
    if scale < 1 and batch == 1:
        assert found.tolist() == y.tolist()  # the order of the steps is seen as well


def test_labels_after_four_steps_of_a_network_that_people_use():
    """LeNet with a hundred classes, two clients of four pictures and steps, learning rate 0.1."""
    right = 0
    for seed in (11, 12):
        torch.manual_seed(seed)
        net = MODELS.build("lenet", {}, channels=3, size=32, classes=100)
        sent = state_of(net)
        x = leaves(4, (3, 32, 32), generator(seed, "pictures"))
        y = torch.randint(100, (4,), generator=generator(seed, "labels"))
        rule = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            rule.zero_grad()
            cross_entropy(net(x[step : step + 1]), y[step : step + 1]).backward()
            rule.step()
        seen = Observation(
            sent=sent,
            received=state_of(net),
            classes=100,
            input_shape=(3, 32, 32),
            lr=0.1,
            local_steps=4,
            batch_size=1,
            num_examples=4,
            model=net,
        )
        found = from_sign(stack([seen]), [0], 0)[0].tolist()
        right += sum(min(y.tolist().count(one), found.count(one)) for one in set(found))
    assert right >= 7


class Times(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by
