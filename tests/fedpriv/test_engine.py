"""The explicit passes equal the general path: gradients, and what an attack makes of them."""

import pytest
import torch
from torch import nn

from fedpriv.catalogue import MODELS
from fedpriv.engine import gradients
from fedpriv.engine.explicit import explicit_engine
from fedpriv.engine.gradients import dense, gradient_of
from fedpriv.engine.memory import keep_pages
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.rng import generator
from fedpriv.state import state_of

DISTANCES = ["l2", "l1", "cosine", "layerwise_cosine"]


class Odd(nn.Module):
    """What no model of the registry has: shortcuts over two convolutions, functions, methods."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.b = nn.Conv2d(4, 4, (3, 1), padding=(1, 0), groups=2, dilation=1)
        self.c = nn.Linear(16, 7, bias=False)
        self.d = nn.Linear(7, 5)

    def forward(self, x):
        x = torch.tanh(self.norm(self.a(x)))
        x = x + self.b(x).sigmoid()
        x = nn.functional.pad(x, (1, 0, 1, 0))
        x = nn.functional.max_pool2d(x, 2)
        x = nn.functional.avg_pool2d(x, 2)
        return self.d(torch.relu(self.c(x.view(x.size(0), -1))))


def odd():
    return Odd()


NETS = {
    "dlnet": lambda: MODELS.build("dlnet", {}, channels=3, size=16, classes=5),
    "lenet": lambda: MODELS.build("lenet", {"activation": "tanh"}, channels=3, size=16, classes=5),
    "resnet20": lambda: MODELS.build("resnet20", {"width": 2}, channels=3, size=16, classes=5),
    "padding": lambda: MODELS.build(
        "resnet20", {"width": 2, "shortcut": "padding"}, channels=3, size=16, classes=5
    ),
    "convnet": lambda: MODELS.build("convnet", {"width": 2}, channels=3, size=16, classes=5),
    "mlp": lambda: MODELS.build("mlp", {}, channels=3, size=16, classes=5),
    "odd": odd,
}


def observed(net, batch=1, count=3):
    stream = generator(0, "engine")
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                for value, low in (
                    (module.running_mean, -0.5),
                    (module.running_var, 0.5),
                    (module.weight, 0.5),
                    (module.bias, -0.5),
                ):
                    value.copy_(torch.rand(value.shape, generator=stream) + low)
    net.eval()
    found = []
    for node in range(count):
        x = torch.randn(batch, 3, 16, 16, generator=stream)
        y = torch.randint(5, (batch,), generator=stream)
        found.append(
            Observation.of_gradient(
                state_of(net),
                gradient_of(net, x, y),
                classes=5,
                input_shape=(3, 16, 16),
                batch_size=batch,
                num_examples=batch,
                mode="eval",
                node=node,
                model=net,
            )
        )
    return found


@pytest.mark.parametrize(
    ("name", "batch"),
    [(name, batch) for name in NETS for batch in (1, 2) if (name, batch) != ("padding", 1)],
)
def test_it_equals_the_general_path(name, batch):
    torch.manual_seed(3)
    seen = observed(NETS[name](), batch)
    fast, slow = stack(seen), stack(seen, fast=False)
    assert fast.engine is not None and slow.engine is None
    stream = generator(1, "guess")
    x = torch.randn(3, batch, 3, 16, 16, generator=stream).requires_grad_()
    y = torch.randn(3, batch, 5, generator=stream).requires_grad_()
    for key, value in slow.gradient_at(x, y).items():
        close(dense(fast.factors_at(x, y)[key]), value)
    for distance in DISTANCES:
        ours, theirs = (attack_gradient(distance, victims, x, y) for victims in (fast, slow))
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)


def attack_gradient(distance: str, victims: Victims, x, y):
    losses = getattr(gradients, distance)(victims.factors_at(x, y), victims.gradient)
    return (losses, *torch.autograd.grad(losses.sum(), (x, y)))


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4 * float(b.detach().abs().max()) + 1e-12)


def test_the_backbone_with_an_upstream_gradient():
    torch.manual_seed(3)
    victims = stack(observed(NETS["dlnet"]()))
    engine = victims.engine.backbone()
    net = victims.model[:-1]
    x = torch.randn(2, 1, 3, 16, 16, generator=generator(0, "x")).requires_grad_()
    features = net(x.flatten(0, 1))
    u = torch.randn(2, 1, features.shape[1], generator=generator(0, "u")).requires_grad_()
    output, found = engine.output_and_gradients_at(x, u)
    close(output.flatten(0, 1), features)
    direction = torch.randn(2, *victims.weights["0.weight"].shape, generator=generator(0, "v"))
    ours = torch.autograd.grad(
        (found["0.weight"] * direction).sum() + output.square().sum(), (x, u)
    )

    def one(w, x, u):
        return (
            torch.func.functional_call(net, {**dict(net.named_parameters()), "0.weight": w}, (x,))
            * u
        ).sum()

    mapped = torch.func.vmap(torch.func.grad(one), in_dims=(None, 0, 0))
    theirs = mapped(victims.weights["0.weight"], x, u)
    close(found["0.weight"], theirs)
    total = (theirs * direction).sum() + net(x.flatten(0, 1)).square().sum()
    for a, b in zip(ours, torch.autograd.grad(total, (x, u)), strict=True):
        close(a, b)


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(784, 5)),
        nn.Sequential(nn.Flatten(), nn.Linear(768, 5), nn.Softplus()),
    ],
)
def test_unknown_layers_take_the_general_path(net):
    victims = stack(observed(net))
    assert victims.engine is None
    assert set(
        victims.gradient_at(torch.zeros(3, 1, 3, 16, 16), torch.zeros(3, 1, dtype=torch.long))
    ) == {k for k, _ in net.named_parameters()}


def test_batch_statistics_take_the_general_path():
    from dataclasses import replace

    seen = [replace(one, mode="train") for one in observed(NETS["convnet"](), batch=2)]
    assert stack(seen).engine is None


def test_a_branch_on_data_takes_the_general_path():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(768, 5)

        def forward(self, x):
            x = x.flatten(1)
            return self.a(x if x.sum() > 0 else -x)

    net = Branching()
    weights = {k: v.detach() for k, v in net.named_parameters()}
    assert explicit_engine(net, weights, {}, (3, 16, 16)) is None
    victims = stack(observed(net, count=2))  # vmap does not take it either: one after the other
    x, y = torch.randn(2, 1, 3, 16, 16), torch.tensor([[1], [2]])
    found = victims.gradient_at(x, y)["a.weight"]
    for v in range(2):
        close(found[v], gradient_of(net, x[v], y[v])["a.weight"])


def test_models_that_differ_take_the_general_path():
    torch.manual_seed(0)
    one, other = observed(NETS["dlnet"](), count=1)[0], observed(NETS["dlnet"](), count=1)[0]
    victims = stack([one, other.on(one.model)])
    assert not victims.shared and victims.engine is None
    x, y = torch.rand(2, 1, 3, 16, 16), torch.tensor([[1], [2]])
    both = victims.gradient_at(x, y)
    for row, seen in enumerate((one, other)):
        alone = stack([seen]).gradient_at(x[row : row + 1], y[row : row + 1])
        for key, value in alone.items():
            close(both[key][row], value[0])


def test_memory_bounds_the_rows():
    victims = stack(observed(NETS["convnet"]()))
    need = victims.bytes_each()
    assert victims.that_fit(10 * need / 2**30) == 10
    assert victims.that_fit(1e-9) == 1
    keep_pages()
