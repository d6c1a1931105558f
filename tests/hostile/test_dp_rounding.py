"""A server whose weights make rounding speak: no sample moves another's gradient, not by a bit."""

import itertools

import pytest
import torch
from messages import context_of
from worlds import UPDATES

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import make_job
from fedpriv.clients.protection.each import Outer
from fedpriv.clients.protection.ghost import OuterProducts
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
WITNESS, OTHERS = 7, [0, 3, 12]
MODELS = [
    {"name": "mlp", "hidden": [64]},
    {"name": "lenet"},
    {"name": "convnet", "width": 2, "batchnorm": "group"},
]


def job_of(model, mode, size):
    """A client's job, with weights of any size whose sums nearly cancel out."""
    dp = {"name": "dp", "noise-multiplier": 1.0, "grad-sample": mode}
    training = {"batch-size": 6, "local-steps": 1}
    data = {"options": {"train": 64, "test": 32, "size": 16}}
    own = {"data": data, "model": model, "training": training, "plugins": [dp]}
    scenario = from_tables(merged(UPDATES, own))
    start = first_state(scenario)
    for key, value in start.items():
        if value.dim() > 1:
            noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(len(key)))
            value += size * (noise - noise.flatten(1).mean(1).view(-1, *[1] * (value.dim() - 1)))
    job = plugin_of(scenario.plugins).on_setup(make_job(scenario, start, 1, context_of(scenario)))
    job.model.train()
    return job


def gradients_of(job, x, y):
    """What the clipped sum is made of, for every sample (N, …)."""
    job.optimiser.zero_grad()
    outputs = job.model(x)
    if hasattr(job.model, "watching"):
        job.loss(outputs, y).each.sum().backward()
        parts = [part for parts in job.model.watching.found.values() for part in parts]
        every = slice(None)
        found = [(p.x, p.y) if isinstance(p, Outer) else (p.make(every),) for p in parts]
        found = [outputs, *itertools.chain.from_iterable(found)]
        found = [one.detach()[: len(y)].clone() for one in found]
        job.model.clip(1.0)
        return found
    if not hasattr(job.model, "parts"):
        job.loss(outputs, y).backward()
        found = [outputs.detach(), *(p.grad_sample.clone() for p in job.optimiser.params)]
        return [one[: len(y)] for one in found]
    job.loss(outputs, y).each.sum().backward()
    found = [outputs.detach()]
    for part in job.model.parts:
        found += [part.x, part.y] if isinstance(part, OuterProducts) else part.make().values()
    found = [one.detach()[: len(y)].clone() for one in found]
    job.model.clip(1.0)
    return found


@pytest.fixture(params=MODELS, ids=lambda model: model["name"])
def model(request):
    return request.param


@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("mode", ["explicit", "hooks", "functorch", "ghost"])
def test_what_is_in_one_sample_never_moves_another(model, mode, size):
    job = job_of(model, mode, size)
    x, y = job.x[:16].clone(), job.y[:16].clone()
    before = gradients_of(job, x, y)
    for odd in (0.0, 1e20, float("nan"), float("inf"), torch.rand(x[0].shape)):
        x[OTHERS], y[OTHERS] = odd, 1 - y[OTHERS].clamp(max=1)
        after = gradients_of(job, x, y)
        for one, other in zip(before, after, strict=True):
            assert one.shape == other.shape and len(one) == 16
            assert torch.equal(one[WITNESS].nan_to_num(), other[WITNESS].nan_to_num())
        pairs = zip(before, after, strict=True)
        assert any(not torch.equal(one[OTHERS], other[OTHERS]) for one, other in pairs)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("mode", ["explicit", "hooks", "functorch", "ghost"])
def test_how_many_there_are_never_moves_anybody(model, mode, size):
    """The mean over a batch did, and so did matrices of few rows."""
    job = job_of(model, mode, size)
    x, y = job.x.repeat(3, 1, 1, 1)[:70], job.y.repeat(3)[:70]
    whole = gradients_of(job, x, y)
    for count in (*range(1, 20), 31, 33, 47, 60, 63, 64, 65):
        for one, other in zip(whole, gradients_of(job, x[:count], y[:count]), strict=True):
            both = min(len(other), count)
            assert both == count
            assert torch.equal(one[:both].nan_to_num(), other[:both].nan_to_num()), count
