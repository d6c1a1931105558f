"""A server that sends weights with which rounding undoes the clipping of dp."""

import pytest
import torch
from messages import context_of
from torch import nn
from worlds import UPDATES

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import make_job
from fedpriv.clients.protection.ghost import ClippedLoss, OneBackward
from fedpriv.clients.protection.per_sample import PerSample
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")


@pytest.mark.parametrize("size", [1.0, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("mode", ["explicit", "hooks", "functorch", "ew", "ghost"])
def test_no_sample_is_longer_than_the_bound_whatever_the_weights(mode, size):
    """All rows of the head are equal, so that what comes back through it is rounding alone.

    With Opacus' ghost clipping most samples were longer, up to 1200 times.
    """
    dp = {"name": "dp", "noise-multiplier": 0.0, "max-grad-norm": 1.0, "grad-sample": mode}
    training = {"batch-size": 6, "local-steps": 1, "lr": 1.0}
    scenario = from_tables(merged(UPDATES, {"training": training, "plugins": [dp]}))
    start = first_state(scenario)
    start["3.weight"] = torch.full_like(start["3.weight"], size)
    start["3.bias"] = torch.randn(4, generator=torch.Generator().manual_seed(1))
    job = plugin_of(scenario.plugins).on_setup(make_job(scenario, start, 1, context_of(scenario)))
    job.model.train()
    job.optimiser.expected_batch_size = 1
    lengths = []
    for i in range(len(job.x)):
        job.optimiser.zero_grad()
        job.loss(job.model(job.x[i : i + 1]), job.y[i : i + 1]).backward()
        job.optimiser.pre_step()
        lengths.append(torch.cat([p.grad.flatten() for p in job.optimiser.params]).norm())
    assert 0.9 < max(lengths) < 1 + 1e-5


class Sequences(nn.Module):
    """A layer that sees 16 places of a sample, and a head whose weights cancel out over them."""

    def __init__(self):
        super().__init__()
        self.places, self.head = nn.Linear(4, 4), nn.Linear(64, 3)

    def forward(self, x):
        return self.head(self.places(x).flatten(1))


def test_norms_of_sequences_do_not_cancel_out():
    """Large values in every place: Opacus' norm of half the samples was 0, true ones were 15."""
    torch.manual_seed(0)
    model = Sequences()
    with torch.no_grad():
        weight = model.head.weight.view(3, 16, 4)
        weight.normal_().sub_(weight.mean(1, keepdim=True))
    wrapped = OneBackward(model)
    wrapped.train()
    x, y = 1e4 + torch.randn(40, 16, 4), torch.randint(3, (40,))
    for i in range(40):
        ClippedLoss(wrapped, 1.0)(wrapped(x[i : i + 1]), y[i : i + 1]).backward()
        assert torch.cat([p.grad.flatten() for p in model.parameters()]).norm() < 1 + 1e-5


@pytest.mark.parametrize("wrapper", [OneBackward, PerSample])
@pytest.mark.parametrize("last", [1e17, 1e19, 3e24, 1e25, 2e25, 1e30])
def test_norms_beyond_single_precision_are_within_the_bound_or_left_out(wrapper, last):
    """Every value is finite, but the norm of the middle layer is not, in single precision.

    A factor that small was rounded up to the smallest number there is: lengths of up to 2.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    with torch.no_grad():
        for layer, size in zip(model, (1e20, 1e-20, last), strict=True):
            layer.weight.normal_().mul_(size)
            layer.bias.zero_()
    wrapped = wrapper(model)
    wrapped.train()
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    for i in range(20):
        ClippedLoss(wrapped, 1.0)(wrapped(x[i : i + 1]), y[i : i + 1]).backward()
        assert torch.cat([p.grad.flatten() for p in model.parameters()]).double().norm() < 1 + 1e-5
