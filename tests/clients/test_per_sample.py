"""The engine of dp: the gradients of Opacus, and no model that it does not know."""

import gc

import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn
from torch.nn import functional

from fedpriv.clients.protection import each, per_sample
from fedpriv.clients.protection.fastest import fastest
from fedpriv.clients.protection.ghost import losses
from fedpriv.clients.protection.per_sample import PerSample, knows
from fedpriv.clients.protection.private_steps import Steps, private
from fedpriv.clients.protection.rows import STEP, filled
from fedpriv.clients.protection.secret import SeededForSimulation

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
BOUND = 0.5


class Twice(nn.Module):
    """A layer that is used twice, and a parameter that no output depends on."""

    def __init__(self):
        super().__init__()
        self.same, self.head, self.idle = nn.Linear(12, 12), nn.Linear(12, 3), nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.same(self.same(x.flatten(1)).relu()))


class Places(nn.Module):
    """Linear layers and norms on many places of a sample, as in a transformer."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.head = nn.LayerNorm(4), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(functional.gelu(self.mix(self.norm(x.flatten(1, 2)))).mean(1))


def pictures(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(3))


MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, 3)),
        (3, 4),
    ),
    "few channels": (
        lambda: pictures(nn.Conv2d(3, 5, 3, stride=2, padding=1), nn.ReLU()),
        (3, 8, 8),
    ),
    "channels": (
        lambda: pictures(
            nn.Conv2d(4, 6, (3, 1), padding=(1, 0), bias=False),
            nn.GroupNorm(2, 6),
            nn.ReLU(),
            nn.Conv2d(6, 4, 3, dilation=2, groups=2),
        ),
        (4, 9, 8),
    ),
    "twice": (Twice, (3, 4)),
    "places": (Places, (2, 3, 4)),
}


def built(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, x = make(), torch.randn(11, *shape)
    model(x)  # lazy layers learn their sizes
    return model, x, torch.arange(11) % 3


def opacus_sums(model, x, y):
    """Clipped sums of the gradients that Opacus' hooks find."""
    wrapped = GradSampleModule(model, loss_reduction="sum")
    functional.cross_entropy(wrapped(x), y, reduction="sum").backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    norms = torch.stack([p.grad_sample.flatten(1).norm(dim=1) for p in trained]).norm(dim=0)
    factors = (BOUND / (norms + 1e-6)).clamp(max=1)
    assert (factors < 1).sum() > 0  # some are clipped
    found = [torch.einsum("n...,n->...", p.grad_sample, factors) for p in trained]
    wrapped.to_standard_module()
    return dict(zip(map(id, trained), found, strict=True))


def own_sums(model, x, y):
    engine = PerSample(model)
    losses(engine(filled(x, STEP)), y).sum().backward()
    engine.clip(BOUND)
    return {id(p): p.grad.clone() for p in model.parameters()}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_clipped_sums_are_those_of_opacus(name, kept, monkeypatch):
    """Also when gradients are made twice, a sample at a time, because they find no room."""
    model, x, y = built(name)
    assert knows(model, tuple(x.shape[1:]))
    if not kept:
        monkeypatch.setattr(per_sample, "KEPT", 0)
        monkeypatch.setattr(each, "SMALL", 0)
        monkeypatch.setattr(each, "ROOM", 1)
    own = own_sums(model, x, y)
    model.zero_grad(set_to_none=True)
    for key, wanted in opacus_sums(model, x, y).items():
        torch.testing.assert_close(own.pop(key), wanted, rtol=1e-4, atol=1e-6)
    assert not any(left.any() for left in own.values())  # of layers that nothing depends on


@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "explicit") for name in MODELS), ("channels", "hooks"), ("channels", "ghost")],
)
def test_a_step_leaves_no_tensor_behind(name, mode):
    """A client would take more memory with every step, until there is none."""
    model, x, y = built(name)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    draws = SeededForSimulation(3).fresh("dp", "noise")
    plain = Steps(model, functional.cross_entropy, optimiser)
    made = private(plain, draws, mode, 1.0, BOUND, len(x), tuple(x.shape[1:]))

    def alive() -> int:
        made.optimiser.zero_grad()
        loss = made.loss(made.model(x), y)
        loss.backward()
        made.optimiser.step()
        made.optimiser.zero_grad()
        del loss
        gc.collect()
        return sum(isinstance(one, torch.Tensor) for one in gc.get_objects())

    alive(), alive()
    assert alive() == alive()


def test_a_batch_without_a_sample_is_a_sum_of_zeros():
    model, x, y = built("channels")
    assert not any(total.any() for total in own_sums(model, x[:0], y[:0]).values())


class OwnProduct(nn.Module):
    """A parameter in a function that has no rule."""

    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(12)), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(x.flatten(1) * self.scale)


def test_a_model_it_does_not_know_is_left_to_others():
    scripted = torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)))
    for model in (
        OwnProduct(),
        nn.Sequential(scripted),
        nn.Sequential(nn.Conv1d(3, 2, 3), nn.Flatten()),
    ):
        assert not knows(model, (3, 4))


def test_what_is_measured_is_one_of_the_ways():
    model, x, _ = built("mlp")
    state = torch.random.get_rng_state()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    assert fastest(model, tuple(x.shape[1:]), 8) in ("explicit", "ghost", "hooks", "functorch")
    assert torch.equal(torch.random.get_rng_state(), state)  # nothing that is drawn later changes
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
