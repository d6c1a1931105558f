"""The explicit passes equal the general path: gradients, and what an attack makes of them."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from fedpriv.catalogue import MODELS
from fedpriv.engine import activations, gradients, trusted
from fedpriv.engine.aimed import Aimed
from fedpriv.engine.columns import folded_back, pulled_back
from fedpriv.engine.convolution import Convolution
from fedpriv.engine.explicit import Explicit
from fedpriv.engine.geometry import Geometry
from fedpriv.engine.gradients import as_trained, dense, gradient_of, loss_at
from fedpriv.engine.memory import keep_pages
from fedpriv.engine.program import program
from fedpriv.engine.trusted import explicit_engine
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, alike, stack
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
    "normed": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2),
        nn.GroupNorm(2, 4),
        nn.GELU(),
        nn.Conv2d(4, 4, 3, groups=4),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(100, 5),
    ),
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


def test_unknown_layers_take_the_general_path_and_say_so_once(caplog):
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(768, 6), nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 1, 2)
    )
    net.append(nn.Flatten())
    trusted._told.clear()
    victims = stack(observed(net))
    assert victims.engine is None
    assert set(
        victims.gradient_at(torch.zeros(3, 1, 3, 16, 16), torch.zeros(3, 1, dtype=torch.long))
    ) == {k for k, _ in net.named_parameters()}
    stack(observed(net))
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "Sequential: Conv1d '3' has no rule" in warning and "times as long" in warning


def test_a_wrong_rule_is_refused(caplog, monkeypatch):
    class Wrong(activations.Rectifier):
        def backward(self, tape, d):
            return (d * 1.001,)

    monkeypatch.setattr(activations, "RELU", Wrong())
    monkeypatch.setattr(trusted, "_checked", {})
    net = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(392, 5))
    assert stack(observed(net)).engine is None
    assert "disagree with autograd, most of all at '0." in caplog.text


@pytest.mark.thorough
def test_nine_wide_networks_of_nine_are_on_the_engine(monkeypatch):
    for draw in range(9):
        monkeypatch.setattr(trusted, "_checked", {})
        torch.manual_seed(draw)
        net = MODELS.build("convnet", {"width": 64}, channels=3, size=32, classes=100)
        weights = {key: value.detach() for key, value in net.named_parameters()}
        buffers = dict(net.named_buffers())
        assert explicit_engine(net.eval(), weights, buffers, (3, 32, 32)) is not None


@pytest.mark.parametrize("draw", range(3))
def test_no_draw_of_the_weights_is_unlucky(draw, monkeypatch):
    monkeypatch.setattr(trusted, "_checked", {})
    torch.manual_seed(draw)
    net = MODELS.build("convnet", {"width": 8}, channels=3, size=16, classes=5)
    assert stack(observed(net)).engine is not None


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


@pytest.mark.parametrize("name", ["dlnet", "resnet20", "odd", "normed"])
@pytest.mark.parametrize("which", [[0, 1], [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1], [0, 1, 2]])
def test_models_that_differ_stay_on_the_engine(name, which):
    """As in several rounds, and in round robin; also when some victims are left out."""
    torch.manual_seed(0)
    nets = [NETS[name]() for _ in range(max(which) + 1)]
    rounds = [observed(net, batch=2, count=len(which)) for net in nets]
    seen = [rounds[of][row].on(nets[0]) for row, of in enumerate(which)]
    fast, slow = stack(seen), stack(seen, fast=False)
    assert not fast.shared and fast.engine is not None and slow.engine is None
    for rows in (list(range(len(which))), list(range(len(which)))[1:], [0, 0, 1]):
        x = torch.rand(len(rows), 2, 3, 16, 16, generator=generator(1, "x")).requires_grad_()
        y = torch.rand(len(rows), 2, 5, generator=generator(1, "y")).requires_grad_()
        pair = (attack_gradient("cosine", all_.rows(rows), x, y) for all_ in (fast, slow))
        for a, b in zip(*pair, strict=True):
            close(a, b)


def test_unequal_clients_are_one_group():
    """How many samples a client has does not matter when its one batch is full."""
    net = NETS["dlnet"]()
    seen = [replace(one, num_examples=2 + one.node) for one in observed(net, batch=2, count=4)]
    assert [len(group) for group in alike(seen)] == [4]
    victims = stack(seen)
    assert [one.num_examples for one in victims.rows([3, 0]).each] == [5, 2]
    short = replace(seen[0], num_examples=1)
    assert [len(group) for group in alike([*seen, short])] == [4, 1]
    with pytest.raises(BadObservation, match="differ in slots"):
        stack([*seen, short])


class Gate(nn.Module):
    """Squeeze and excitation, by a product of unequal shapes."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, stride=2, padding=1, groups=1)
        self.norm = nn.BatchNorm2d(4)
        self.deep = nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4, bias=False)
        self.pool, self.hard = nn.AdaptiveAvgPool2d(1), nn.Hardsigmoid()
        self.b = nn.Conv2d(4, 4, 1)
        self.c = nn.Linear(64, 5)

    def forward(self, x):
        x = nn.functional.silu(self.norm(self.a(x)))
        x = self.deep(x)
        return self.c((x * self.hard(self.b(self.pool(x))) * 0.5).flatten(1))


def conv(*layers, channels=4):
    size = nn.Sequential(nn.Conv2d(3, channels, 3), *layers)(torch.zeros(2, 3, 16, 16))[0].numel()
    return nn.Sequential(nn.Conv2d(3, channels, 3), *layers, nn.Flatten(), nn.Linear(size, 5))


ORACLES = {
    **{
        type(layer).__name__ + str(i): partial(conv, layer)
        for i, layer in enumerate(
            [
                nn.ReLU(),
                nn.Sigmoid(),
                nn.Tanh(),
                nn.SiLU(),
                nn.GELU(),
                nn.GELU(approximate="tanh"),
                nn.LeakyReLU(0.2),
                nn.ReLU6(),
                nn.Hardtanh(-0.5, 0.2),
                nn.Hardswish(),
                nn.Hardsigmoid(),
                nn.ELU(),
                nn.GroupNorm(2, 4),
                nn.GroupNorm(2, 4, affine=False),
                nn.LayerNorm([4, 14, 14]),
                nn.LayerNorm(14),
                nn.BatchNorm2d(4),
                nn.MaxPool2d(3, 2, 1),
                nn.AvgPool2d(2),
                nn.AvgPool2d(3, 2, 1, count_include_pad=False),
                nn.Softplus(),
                nn.Conv2d(4, 4, 3, stride=2, groups=4),
                nn.Conv2d(4, 8, 3, padding=2, dilation=2, groups=2),
            ]
        )
    },
    "before": lambda: nn.Sequential(
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(768, 6),
        nn.BatchNorm1d(6),
        nn.Linear(6, 5),
    ),
    "columns": lambda: nn.Sequential(
        nn.Conv2d(3, 4, (5, 3), stride=(2, 1), padding=(2, 0), dilation=(1, 2)),
        nn.Sigmoid(),
        nn.Conv2d(4, 4, 3, padding=1, bias=False),
        nn.Flatten(),
        nn.Linear(4 * 8 * 12, 5),
    ),
    "flipped": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.Sigmoid(),
        nn.Conv2d(8, 12, (5, 3), padding=(2, 0), dilation=(1, 2)),
        nn.BatchNorm2d(12),
        nn.Tanh(),
        nn.Conv2d(12, 8, 3, padding=1, bias=False),
        nn.Flatten(),
        nn.Linear(8 * 14 * 10, 5),
    ),
    "gate": Gate,
    **NETS,
}


@pytest.mark.parametrize(
    ("victims", "which"), [(1, None), (3, None), (3, [0, 1, 1]), (3, [1, 0, 2])]
)
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", ORACLES)
def test_every_rule_is_autograd_in_double_precision(name, mode, victims, which):
    """Both orders: the gradient of the weights, and the derivative of a function of it.

    The oracle is plain autograd: under vmap torch's own second derivative of LayerNorm and of
    BatchNorm in train mode is off by a thousandth, also in double precision.
    """
    torch.manual_seed(1)
    net = as_trained(ORACLES[name](), mode)
    stream = generator(1, "guess")

    def drawn(name, value):
        low = 0.5 if name.endswith("running_var") else -0.5
        sets = [] if which is None else [3]
        return torch.rand(*sets, *value.shape, generator=stream).double() + low

    weights = {key: drawn(key, value) for key, value in net.named_parameters()}
    buffers = {key: drawn(key, value) for key, value in net.named_buffers() if value.ndim}
    number = None if which is None else torch.tensor(which)
    engine = Explicit(program(net, weights, buffers), tuple(weights), which=number)
    x = torch.randn(victims, 2, 3, 16, 16, generator=stream).double().requires_grad_()
    t = torch.rand(victims, 2, 5, generator=stream).double().requires_grad_()
    ours = {key: dense(value) for key, value in engine.gradients_at(x, t).items()}
    rows = []
    for row in range(victims):
        own = [
            state if which is None else {key: v[which[row]] for key, v in state.items()}
            for state in (weights, buffers)
        ]
        free = {key: value.clone().requires_grad_() for key, value in own[0].items()}
        loss = loss_at(net, free, own[1], x[row], t[row])
        rows.append(torch.autograd.grad(loss, list(free.values()), create_graph=True))
    theirs = {key: torch.stack([row[i] for row in rows]) for i, key in enumerate(weights)}
    for key, value in theirs.items():
        exact(ours[key], value)
    along = {key: torch.randn(v.shape, generator=stream).double() for key, v in theirs.items()}
    slopes = [
        torch.autograd.grad(sum((all_[key] * along[key]).sum() for key in along), (x, t))
        for all_ in (ours, theirs)
    ]
    for a, b in zip(*slopes, strict=True):
        exact(a, b)


@pytest.mark.parametrize("victims", [1, 3])
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", ORACLES)
def test_the_cosine_without_autograd_is_the_cosine(name, mode, victims):
    """The distance to observed gradients and its derivative, in double precision."""
    torch.manual_seed(1)
    net = as_trained(ORACLES[name](), mode)
    stream = generator(2, "aimed")

    def drawn(name, value):
        low = 0.5 if name.endswith("running_var") else -0.5
        return torch.rand(value.shape, generator=stream).double() + low

    weights = {key: drawn(key, value) for key, value in net.named_parameters()}
    buffers = {key: drawn(key, value) for key, value in net.named_buffers() if value.ndim}
    engine = Explicit(program(net, weights, buffers), tuple(weights))
    x = torch.randn(victims, 2, 3, 16, 16, generator=stream).double().requires_grad_()
    t = torch.rand(victims, 2, 5, generator=stream).double()
    target = {
        key: torch.randn(victims, *value.shape, generator=stream).double()
        for key, value in weights.items()
    }
    losses = gradients.cosine(engine.gradients_at(x, t), target)
    (slope,) = torch.autograd.grad(losses.sum(), x)
    aimed = Aimed.at(engine, target)
    found, bar = aimed(x.detach(), t)
    exact(found, losses)
    exact(bar, slope)


def exact(a, b):
    size = float(b.detach().norm())
    assert float((a - b).detach().norm()) <= 1e-9 * size + 1e-12


@pytest.mark.parametrize("padding", [(0, 0), (2, 1)])
def test_columns_folded_row_by_row_are_the_same(padding):
    own, d = torch.randn(3, 2 * 20, 7), torch.randn(3, 7, (9 + 2 * padding[0] - 3) * 8)
    size = (9, 12 - 2 * padding[1])  # and windows of 4 × 5
    whole = folded_back(own @ d, size, (4, 5), (1, 1), padding, (1, 1))
    torch.testing.assert_close(pulled_back(own, d, size, (4, 5), padding), whole)


def test_memory_bounds_the_rows():
    victims = stack(observed(NETS["convnet"]()))
    need = victims.bytes_each()
    assert victims.that_fit(10 * need / 2**30) == 10
    assert victims.that_fit(1e-9) == 1
    keep_pages()


@pytest.mark.parametrize(("side", "copied"), [(8, True), (32, False)])
def test_a_sample_goes_through_columns_only_while_they_are_small(side, copied):
    same = Geometry(stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
    rule = Convolution(torch.randn(8, 64, 3, 3), None, same)
    tape, x = {}, torch.randn(1, 64, side, side)
    found = rule.forward(tape, x)
    assert ("columns" in tape) == copied
    torch.testing.assert_close(
        found, nn.functional.conv2d(x, rule.weight, padding=1), rtol=1e-4, atol=1e-3
    )
