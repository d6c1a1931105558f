"""Hooks note what a client's training really does, and change none of it."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchvision import transforms

from fedpriv.clients.keeping import truth_in
from fedpriv.clients.noticing import Eyes


def trained(net, batches, optimiser, loss=functional.cross_entropy):
    for x, y in batches:
        optimiser.zero_grad()
        loss(net(x), y).backward()
        optimiser.step()


def batches(sizes=(4, 4, 2)):
    draw = torch.Generator().manual_seed(0)
    return [
        (torch.rand(n, 1, 8, 8, generator=draw), torch.randint(3, (n,), generator=draw))
        for n in sizes
    ]


def network():
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3))


def test_optimiser_steps_batches_loss_and_mode_are_noted():
    net = network()
    with Eyes() as eyes, eyes.noting() as notes:
        trained(net, batches(), torch.optim.SGD(net.parameters(), 0.1, 0.9, weight_decay=0.01))
    assert (notes.optimiser, notes.steps, notes.sizes) == ("sgd", 3, [4, 4, 2])
    assert (notes.options["momentum"], notes.options["weight_decay"]) == (0.9, 0.01)
    assert notes.rates == [0.1, 0.1, 0.1]
    assert (notes.losses, notes.outputs, notes.training) == ({"cross-entropy"}, {3}, {True})
    assert notes.dropout == 0.5
    assert notes.model is net
    assert torch.equal(torch.cat(notes.x), torch.cat([x for x, _ in batches()]))
    assert torch.equal(torch.cat(notes.y), torch.cat([y for _, y in batches()]))


def test_only_samples_that_were_not_trained_on_are_held():
    net = network()
    (x, y), (other, labels), _ = batches()
    with Eyes() as eyes, eyes.noting():
        trained(net, [(x, y)], torch.optim.SGD(net.parameters(), 0.1))
        with torch.no_grad():
            for part in (x, other):
                functional.cross_entropy(net(part), labels)
    assert [len(held) for held, _ in eyes.held] == [4]
    assert torch.equal(eyes.held[0][0], other)


def test_training_is_the_same_with_and_without_eyes():
    weights = []
    for watched in (False, True):
        torch.manual_seed(3)
        net = network()
        optimiser = torch.optim.Adam(net.parameters())
        if watched:
            with Eyes() as eyes, eyes.noting():
                trained(net, batches(), optimiser)
        else:
            trained(net, batches(), optimiser)
        weights.append(net[2].weight.detach().clone())
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (nn.CrossEntropyLoss(), "cross-entropy"),
        (lambda z, y: functional.nll_loss(z.log_softmax(1), y), "nll"),
        (lambda z, y: nn.MSELoss()(z[:, 0], y.float()), "mse"),
        (
            lambda z, y: nn.BCEWithLogitsLoss()(z[:, :1], (y > 0).float()[:, None]),
            "bce-with-logits",
        ),
    ],
)
def test_the_loss_is_seen_however_it_is_called(loss, name):
    net = network()
    with Eyes() as eyes, eyes.noting() as notes:
        trained(net, batches((4,)), torch.optim.SGD(net.parameters(), 0.1), loss)
    assert notes.losses == {name}


def test_evaluated_samples_are_kept_apart_from_trained_ones():
    net, (one, other) = network(), batches((4, 5))
    with Eyes() as eyes, eyes.noting() as notes:
        trained(net, [one], torch.optim.SGD(net.parameters(), 0.1))
        with torch.no_grad():
            functional.cross_entropy(net(other[0]), other[1])
    assert notes.steps == 1 and notes.sizes == [4]
    assert torch.equal(eyes.held[0][0], other[0]) and torch.equal(eyes.held[0][1], other[1])


def test_normalisation_and_augmentation_are_seen_in_transformations():
    both = transforms.Compose(
        [transforms.RandomHorizontalFlip(), transforms.Normalize((0.5,), (0.25,))]
    )
    with Eyes() as eyes:
        both(torch.rand(1, 8, 8))
    assert eyes.normalised == {((0.5,), (0.25,))}
    assert eyes.random == {"RandomHorizontalFlip"}


def test_gradient_accumulation_is_one_step_of_all_its_samples():
    net, (one, other) = network(), batches((4, 4))
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    with Eyes() as eyes, eyes.noting() as notes:
        for x, y in (one, other):
            functional.cross_entropy(net(x), y).backward()
        optimiser.step()
    assert notes.sizes == [8]


def test_a_truth_has_each_sample_once_although_epochs_repeat_them():
    net, known = network(), batches((4, 4))
    with Eyes() as eyes, eyes.noting() as notes:
        trained(net, [*known, *known], torch.optim.SGD(net.parameters(), 0.1))
    truth = truth_in(notes, 2, 7)
    assert truth.name == "2-7"
    assert torch.equal(truth.x, torch.cat([x for x, _ in known]))
    assert torch.equal(truth.y, torch.cat([y for _, y in known]))
