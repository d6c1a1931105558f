import pytest
import torch
from torch import nn

from fedpriv.catalogue import MODELS
from fedpriv.errors import BadOption


def build(name, channels=3, size=32, classes=10, **options):
    return MODELS.build(name, options, channels=channels, size=size, classes=classes)


def weights(model, kind):
    return [tuple(m.weight.shape) for m in model.modules() if isinstance(m, kind)]


def sizes(model, kind=nn.Conv2d | nn.MaxPool2d):
    """The side of the output of every layer of that kind, for a 32×32 image."""
    x, seen = torch.zeros(1, 3, 32, 32), []
    for layer in model:
        x = layer(x)
        if isinstance(layer, kind):
            seen.append(x.shape[-1])
    return seen


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("channels,size,classes", [(1, 28, 10), (3, 32, 100), (3, 48, 7)])
def test_every_model_takes_channels_size_and_classes(name, channels, size, classes):
    small = {"width": 4} if name in ("convnet", "resnet20") else {}
    model = build(name, channels, size, classes, **small).eval()
    assert model(torch.zeros(2, channels, size, size)).shape == (2, classes)


@pytest.mark.parametrize("name", MODELS)
def test_the_seed_decides_the_weights(name):
    small = {"width": 4} if name in ("convnet", "resnet20") else {}
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(torch.cat([p.flatten() for p in build(name, **small).parameters()]))
    assert torch.equal(states[0], states[1]) and not torch.equal(states[0], states[2])


def test_dlnet_is_spn_table_6():
    model = build("dlnet")
    assert weights(model, nn.Conv2d) == [(12, 3, 5, 5)] + [(12, 12, 5, 5)] * 3
    assert weights(model, nn.Linear) == [(10, 768)]
    assert sizes(model) == [16, 8, 8, 8]
    assert sum(isinstance(m, nn.Sigmoid) for m in model.modules()) == 4


def test_dlnet_starts_uniform_in_plus_minus_three_tenths():
    torch.manual_seed(0)
    values = torch.cat([p.flatten() for p in build("dlnet").parameters()]).detach()
    assert 0.29 < values.max() <= 0.3 and -0.3 <= values.min() < -0.29
    assert abs(values.std() - 0.3 / 3**0.5) < 0.003
    assert build("dlnet", init="default")[-1].weight.abs().max() < 0.04  # 1/sqrt(768)
    assert any(isinstance(m, nn.Tanh) for m in build("dlnet", activation="tanh"))


def test_fan_out_draws_convolutions_by_what_they_send_out():
    torch.manual_seed(0)
    plain, drawn = build("resnet20"), build("resnet20", init="fan-out")
    for layer in drawn.modules():
        if isinstance(layer, nn.Conv2d) and layer.weight.numel() > 9000:
            wanted = (2 / (layer.out_channels * 9)) ** 0.5
            assert abs(layer.weight.std() / wanted - 1) < 0.05
    assert drawn[-1].weight.abs().max() <= plain[-1].in_features ** -0.5


def test_alexnet_is_spn_table_4():
    model = build("alexnet")
    assert weights(model, nn.Conv2d) == [
        (64, 3, 5, 5),
        (192, 64, 5, 5),
        (384, 192, 3, 3),
        (256, 384, 3, 3),
        (256, 256, 3, 3),
    ]
    assert weights(model, nn.Linear) == [(256, 4096), (10, 256)]
    assert sizes(model) == [32, 16, 16, 8, 8, 8, 8, 4]


def test_vgg16_is_spn_table_5_with_every_pooling_halving():
    model = build("vgg16")
    outs = [shape[0] for shape in weights(model, nn.Conv2d)]
    assert outs == [64] * 2 + [128] * 2 + [256] * 3 + [512] * 3 + [512] * 3
    assert all(shape[2:] == (3, 3) for shape in weights(model, nn.Conv2d))
    assert len(weights(model, nn.GroupNorm)) == 13
    assert weights(model, nn.Linear) == [(256, 512), (10, 256)]
    assert sizes(model, nn.MaxPool2d) == [16, 8, 4, 2, 1]


def test_lenet_is_lenet5():
    assert count(build("lenet", 1, 32)) == count(build("lenet", 1, 28)) == 61_706


def test_resnet20_has_the_published_size():
    assert count(build("resnet20", shortcut="padding")) == 269_722
    assert len(weights(build("resnet20", shortcut="padding"), nn.Conv2d)) == 19
    assert weights(build("resnet20", width=64), nn.Linear) == [(10, 256)]


def multiplications(model):
    """Of one forward pass of one 32×32 image."""
    total = 0

    def add(layer, _, out):
        nonlocal total
        total += layer.weight.numel() * (out.shape[-1] ** 2 if out.dim() == 4 else 1)

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(add)
    model.eval()(torch.zeros(1, 3, 32, 32))
    return total


def test_the_costs_are_those_of_the_attack_literature():
    assert multiplications(build("convnet")) == pytest.approx(1857e6, rel=1e-3)
    assert multiplications(build("resnet20")) == pytest.approx(41e6, rel=0.01)
    assert weights(build("convnet", width=16), nn.Linear) == [(10, 36 * 16)]


def test_the_mlp_is_as_deep_as_asked():
    assert weights(build("mlp", 133, 1, 2, hidden=[64, 32]), nn.Linear) == [
        (64, 133),
        (32, 64),
        (2, 32),
    ]
    assert weights(build("mlp", 1, 28, 10, hidden=[]), nn.Linear) == [(10, 784)]


@pytest.mark.parametrize(
    ("name", "given", "options", "message"),
    [
        ("dlnet", {}, {"activation": "rleu"}, "'sigmoid', 'tanh', 'relu'"),
        ("convnet", {"size": 8}, {}, "9 pixels.*size=8"),
        ("convnet", {}, {"width": 0}, "got 0"),
        ("resnet20", {}, {"width": -1}, "got -1"),
        ("mlp", {}, {"hidden": [0]}, r"got \[0\]"),
        ("alexnet", {"classes": 1}, {}, "2 classes"),
        ("lenett", {}, {}, "Did you mean 'lenet'"),
    ],
)
def test_what_cannot_be_built_is_named(name, given, options, message):
    with pytest.raises(BadOption, match=message):
        build(name, **given, **options)
