import pytest
import torch
from torch import nn

from fedpriv.catalogue import AUTOENCODERS
from fedpriv.errors import BadOption

IMAGES = [name for name in AUTOENCODERS if name != "arl-resnet"]


def build(name, shape, **options):
    return AUTOENCODERS.build(name, options, shape=shape)


def layers(module, kind):
    return [tuple(m.weight.shape) for m in module.modules() if isinstance(m, kind)]


@pytest.mark.parametrize(
    ("name", "shape"),
    [(name, (1, 28, 28)) for name in IMAGES] + [("ran-lenet", (3, 33, 33)), ("conv", (3, 33, 33))],
)
def test_every_layer_can_be_shared_and_decoded(name, shape):
    coder = build(name, shape)
    x = torch.rand(2, *shape)
    for layer in coder.layers if "vgg" not in name else coder.layers[-1:]:
        code = coder.encoder(layer)(x)
        assert code.shape[1:] == coder.code(layer)
        assert coder.decoder(layer)(code).shape == x.shape
    assert coder.decoder("conv1" if "conv1" in coder.layers else "fc1", width=2) is not None


@pytest.mark.parametrize("name", ["ran-lenet", "ars-conv", "ars-dense"])
def test_signals_have_codes_too(name):
    coder = build(name, (6, 128))
    x = torch.rand(2, 6, 128)
    assert coder.decoder()(coder.encoder()(x)).shape == x.shape


def test_lenets_mirror_is_layer_to_layer():
    coder = build("ran-lenet", (1, 28, 28))
    assert layers(coder.encoder(), nn.Conv2d) == [(6, 1, 5, 5), (16, 6, 5, 5)]
    assert layers(coder.decoder(), nn.ConvTranspose2d) == [(16, 6, 5, 5), (6, 1, 5, 5)]
    assert coder.shapes() == [(1, 28, 28), (6, 14, 14), (16, 5, 5)]


def test_alexnets_encoder_is_that_of_spn_table_4():
    coder = build("ran-alexnet", (3, 32, 32))
    maps = [shape[0] for shape in layers(coder.encoder(), nn.Conv2d)]
    assert maps == [64, 192, 384, 256, 256]
    assert coder.code() == (256, 4, 4)
    back = [shape[1] for shape in layers(coder.decoder(), nn.ConvTranspose2d)]
    assert back == [256, 384, 192, 64, 3]


def test_vgg16_has_thirteen_convolutions_each_way():
    coder = build("ran-vgg16", (3, 32, 32))
    assert len(layers(coder.encoder(), nn.Conv2d)) == 13
    assert len(layers(coder.decoder(), nn.ConvTranspose2d)) == 13


def test_ars_counts_its_layers():
    assert layers(build("ars-dense", (1, 28, 28)).encoder(), nn.Linear)[-1] == (256, 512)
    assert len(layers(build("ars-dense", (44,), layers=4, code=16).encoder(), nn.Linear)) == 4
    assert len(layers(build("ars-conv", (3, 96, 96)).encoder("conv4"), nn.Conv2d)) == 4
    assert build("ars-conv", (3, 96, 96)).code("conv4") == (256, 6, 6)


def test_arl_has_the_six_layers_and_the_decoder_of_its_figure():
    coder = build("arl-resnet", (3, 224, 224), depth=50)
    with torch.device("meta"):
        encoder = coder.encoder()
    names = [name for name, _ in encoder.named_children()]
    assert names == ["layer1", "layer2", "layer3", "layer4", "avgpool", "fc"]
    assert sum(p.numel() for p in encoder.parameters()) == 25_557_032  # ResNet-50 as published
    shapes = [(3, 224, 224), (256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)]
    with torch.device("meta"):
        decoder = coder.decode([*shapes, (2048,), (1000,)], 1)
    assert layers(decoder, nn.Linear) == [(2048, 1000), (2048 * 7 * 7, 2048)]
    assert [shape[:2] for shape in layers(decoder, nn.ConvTranspose2d)] == [
        (2048, 1024),
        (1024, 512),
        (512, 256),
        (256, 64),
        (64, 3),
    ]


def test_arl_works_on_small_faces_at_every_layer():
    coder = build("arl-resnet", (1, 40, 40), depth=18)
    x = torch.rand(2, 1, 40, 40)
    for layer in ("input", "layer1", "fc"):
        assert coder.decoder(layer)(coder.encoder(layer)(x)).shape == x.shape


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("ran-lenet", (133,), {}, "images or signals"),
        ("arl-resnet", (6, 128), {}, "needs images"),
        ("arl-resnet", (3, 32, 32), {"depth": 34}, "18, 50"),
        ("ars-dense", (10,), {"layers": 0}, "got 0"),
    ],
)
def test_what_cannot_be_built_is_named(name, shape, options, message):
    with pytest.raises(BadOption, match=message):
        build(name, shape, **options)
