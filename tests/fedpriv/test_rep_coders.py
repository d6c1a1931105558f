"""Coders cut at every layer, decoders back; critics and perceptual losses."""

import pytest
import torch
from torch.nn.functional import mse_loss

from fedpriv.catalogue import AUTOENCODERS
from fedpriv.codes.coders import classifier, critic, mlp_coder
from fedpriv.codes.decoding import (
    Critic,
    critic_loss,
    decoded,
    fit_decoder,
    fit_strong_decoder,
    perceptual_loss,
)
from fedpriv.errors import BadOption
from fedpriv.metrics.perceptual import RandomFeatures
from fedpriv.rng import generator


@pytest.mark.parametrize(
    ("name", "shape"),
    [("mlp", (1, 12, 12)), ("mlp", (13,)), ("conv", (3, 16, 16)), ("conv", (2, 20))],
)
def test_a_decoder_of_any_layer_gives_samples_back(name, shape):
    coder = AUTOENCODERS.build(name, {}, shape=shape)
    x = torch.randn(3, *shape)
    for layer in coder.layers:
        z = coder.encoder(layer)(x)
        assert tuple(z.shape[1:]) == coder.code(layer)
        assert coder.decoder(layer)(z).shape == x.shape
        wide = sum(p.numel() for p in coder.decoder(layer, width=2).parameters())
        assert wide >= sum(p.numel() for p in coder.decoder(layer).parameters())


def test_a_wrong_layer_is_named_with_the_choices():
    coder = AUTOENCODERS.build("conv", {}, shape=(3, 16, 16))
    with pytest.raises(BadOption, match="Did you mean 'conv1'.*input, conv1, conv2, conv3, fc"):
        coder.encoder("conv11")


def test_convolutions_refuse_tables():
    with pytest.raises(BadOption, match="images or signals"):
        AUTOENCODERS.build("conv", {}, shape=(13,))


def test_a_decoder_learns_to_undo_an_encoder():
    torch.manual_seed(0)
    coder = mlp_coder((6,), hidden=(12,), code=6)
    encoder, x = coder.encoder().eval().requires_grad_(False), torch.randn(128, 6)
    z = encoder(x)
    decoder = fit_decoder(coder.decoder(), z, x, draw=generator(0), epochs=80, batch=32, lr=1e-2)
    assert float(mse_loss(decoded(decoder, z), x)) < 0.5 * float(x.var())
    assert not any(p.requires_grad for p in decoder.parameters())


def test_the_critic_learns_and_its_loss_is_equation_3():
    torch.manual_seed(0)
    x, guess = torch.rand(16, 1, 8, 8), torch.zeros(16, 1, 8, 8)
    judge = Critic(critic((1, 8, 8), width=4), lr=1e-2)
    real, false = judge.network(x).sigmoid(), judge.network(guess).sigmoid()
    slow = -(real.log().mean() + (1 - false).log().mean())
    assert float(critic_loss(judge.network, guess, x).detach()) == pytest.approx(
        float(slow.detach()), rel=1e-4
    )
    before = float(critic_loss(judge.network, guess, x).detach())
    for _ in range(10):
        judge.learn(guess, x)
    assert float(critic_loss(judge.network, guess, x)) < before
    assert judge.fooled(guess) > judge.fooled(x)


def test_a_strong_decoder_without_extra_terms_is_the_plain_one():
    coder = mlp_coder((1, 8, 8), hidden=(8,), code=4)
    z, x = torch.randn(20, 4), torch.rand(20, 1, 8, 8)
    found = []
    for fit in (fit_decoder, fit_strong_decoder):
        torch.manual_seed(3)
        found.append(fit(coder.decoder(), z, x, draw=generator(1), epochs=2, batch=8))
    pairs = zip(found[0].parameters(), found[1].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_perceptual_loss_is_zero_for_equal_pictures_only():
    g, x = RandomFeatures(1), torch.rand(2, 1, 16, 16)
    assert float(perceptual_loss(x, x, g)) == 0
    assert float(perceptual_loss(1 - x, x, g)) > 0


def test_a_classifier_takes_codes_of_any_shape():
    assert classifier((4, 3, 3), 7)(torch.zeros(2, 4, 3, 3)).shape == (2, 7)
