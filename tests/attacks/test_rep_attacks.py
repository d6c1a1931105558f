"""Attacks on shared codes: they win on undefended toys, and read masks that are there."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.codes.attributes import AttributeAttack, FeatureAttack
from fedpriv.attacks.codes.decoder import DecoderAttack, TakeAsIs, substitute, training_codes
from fedpriv.attacks.codes.knowledge import Knowledge, NoiseSettings
from fedpriv.attacks.codes.masks import (
    AttributeBehindMask,
    MaskOverlap,
    MaskReading,
    MaskSearch,
    ks_distance,
    mask_of,
    mask_with_overlap,
    overlap,
    read_mask,
)
from fedpriv.codes.coders import mlp_coder
from fedpriv.codes.perturbation import budget, noise_on, random_mask
from fedpriv.errors import BadOption
from fedpriv.rng import generator
from fedpriv.training import outputs

CODER = mlp_coder((1, 6, 6), hidden=(24,), code=8)


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Bright halves: left or right, and a slope, plus noise; the side is a private attribute."""
    draw = generator(seed, "pictures")
    side = torch.randint(0, 2, (count,), generator=draw)
    x = 0.1 * torch.rand(count, 1, 6, 6, generator=draw)
    x[side == 0, :, :, :3] += 0.7
    x[side == 1, :, :, 3:] += 0.7
    x = x * torch.rand(count, 1, 1, 1, generator=draw).add(0.5)
    return x, side


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return CODER.encoder().eval().requires_grad_(False)


def world(encoder, noise: NoiseSettings | None = None, epochs: int = 25):
    """An attacker, two victims' samples and masks; victims perturb with decoders of their own."""
    x, side = pictures(160, seed=1)
    samples = {party: pictures(96, seed=10 + party)[0] for party in (0, 1)}
    masks, shared = {}, {}
    for party, own in samples.items():
        z = outputs(encoder, own)
        if noise is not None:
            mask = masks[party] = random_mask((8,), generator(party, "mask"), noise.share)
            helper = Knowledge(
                query=lambda a: outputs(encoder, a),
                x=own,
                shared={},
                labels={"side": (pictures(96, seed=10 + party)[1], 2)},
                decoder=lambda width: CODER.decoder(width=width),
                epochs=epochs,
                lr=5e-3,
                seed=100 + party,
            )
            decoder = substitute(helper, z, "victim")
            epsilon = budget(z, noise.epsilon, noise.relative)
            pulls = [(helper.reader(z, name, "victim"), 0) for name in noise.private]
            z = z + noise_on(z, own, decoder, pulls, noise.weights, epsilon, 10, mask)
        shared[party] = z
    knows = Knowledge(
        query=lambda a: outputs(encoder, a),
        x=x,
        shared=shared,
        decoder=lambda width: CODER.decoder(width=width),
        labels={"side": (side, 2)},
        noise=noise,
        epochs=epochs,
        lr=5e-3,
    )
    return knows, samples, masks


def by_party(claims):
    """Claims of one party each, by the party in their name."""
    return {int(claim.names[0].partition("-")[2]): claim for claim in claims}


def error(claims, samples) -> float:
    found = by_party(claims)
    gaps = [(found[party].x[0] - x).square().mean() for party, x in samples.items()]
    return float(torch.stack(gaps).mean())


@pytest.mark.parametrize("name", ["decoder", "adversarial-decoder", "large-decoder", "gan-decoder"])
def test_decoders_recover_undefended_samples_they_never_saw(name, encoder):
    knows, samples, _ = world(encoder)
    found = ATTACKS.build(name)(knows)
    spread = float(torch.cat(list(samples.values())).var(dim=0).mean())
    assert error(found, samples) < 0.35 * spread


def test_the_attribute_is_read_off_undefended_codes(encoder):
    knows, _, _ = world(encoder)
    found = AttributeAttack("side")(knows)
    for party in (0, 1):
        truth = pictures(96, seed=10 + party)[1]
        assert (by_party(found)[party].guess[0] == truth).float().mean() > 0.95


def test_larger_codes_hide_nothing(encoder):
    knows, _, _ = world(encoder, epochs=3)
    larger = replace(
        knows,
        query=lambda a: 100 * knows.query(a) + 7,
        shared={party: 100 * z + 7 for party, z in knows.shared.items()},
    )
    for attack in (DecoderAttack(even=True), DecoderAttack(mu2=0.1, even=True)):
        plain, scaled = attack(knows)[0], attack(larger)[0]
        torch.testing.assert_close(plain.x, scaled.x, rtol=1e-2, atol=1e-2)


def test_features_are_read_off_undefended_codes(encoder):
    def halves(x: Tensor) -> Tensor:
        return torch.stack([x[..., :3].mean(dim=(1, 2, 3)), x[..., 3:].mean(dim=(1, 2, 3))], dim=1)

    knows, samples, _ = world(encoder)
    found = FeatureAttack(halves)(knows)
    gap = (found[0].guess[0] - halves(samples[0])).square().mean()
    assert gap < 0.1 * halves(samples[0]).var()


NOISE = NoiseSettings(epsilon=3.0, share=0.5)


def test_masked_noise_harms_decoders_and_reading_the_mask_undoes_much_of_it(encoder):
    plain = error(DecoderAttack("clean")(world(encoder)[0]), world(encoder)[1])
    knows, samples, masks = world(encoder, NOISE)
    clean = error(DecoderAttack("clean")(knows), samples)
    found = MaskReading()(knows)
    assert clean > 3 * plain
    assert error(found, samples) < 0.6 * clean
    for party, mask in masks.items():
        assert overlap(by_party(found)[party].found["mask"][0], mask) >= 7 / 8


def test_an_attribute_is_read_off_the_coordinates_that_pass(encoder):
    """Noise against a thief of clean codes does not stop one who reads the mask."""
    pull = replace(NOISE, private=("side",), weights=(0.0, 1.0))
    knows, samples, _ = world(encoder, pull)
    sides = {party: pictures(96, seed=10 + party)[1] for party in samples}

    def hits(claims):
        found = {int(one.names[0].split("-")[1]): one.guess[0] for one in claims}
        return torch.cat([(found[party] == side).float() for party, side in sides.items()]).mean()

    blind, read = AttributeAttack("side", "clean")(knows), AttributeBehindMask("side")(knows)
    assert hits(read) > 0.9 and hits(read) > hits(blind) + 0.2


def test_a_mask_is_read_among_samples_of_the_same_classes(encoder):
    """A party with another mix of classes has other codes without any noise."""
    knows, _, _ = world(encoder, NOISE)
    x, side = pictures(400, seed=3)
    few = torch.cat([torch.nonzero(side == 0).flatten(), torch.nonzero(side == 1).flatten()[:10]])
    skewed = replace(knows, shared={0: outputs(encoder, x[few])}, task="side")
    assert mask_of(skewed, 0, 1e-3).sum() > 0
    told = replace(skewed, shared_labels={0: side[few]})
    assert mask_of(told, 0, 1e-3).sum() == 0


def test_knowing_more_of_a_mask_decodes_better(encoder):
    knows, samples, masks = world(encoder, NOISE)
    none, all_of_it = (error(MaskOverlap(masks, rate)(knows), samples) for rate in (0.0, 1.0))
    assert all_of_it < none


def test_a_search_for_masks_keeps_one_candidate_for_each_victim(encoder):
    knows, samples, _ = world(encoder, NOISE, epochs=4)
    found = MaskSearch(candidates=2)(knows)
    assert set(by_party(found)) == set(samples) and found[0].x[0].shape == samples[0].shape
    assert set(found[0].found["mask"].unique().tolist()) <= {0.0, 1.0}


def test_an_outsider_imitates_the_noise_and_a_party_uses_its_own_release(encoder):
    knows, _, _ = world(encoder, NOISE, epochs=2)
    noisy = training_codes(knows, "noisy")
    bound = budget(knows.clean, NOISE.epsilon, True)
    assert not torch.equal(noisy, knows.clean)
    assert ((noisy - knows.clean).abs() <= bound * (1 + 1e-5)).all()
    assert torch.equal(training_codes(knows, "clean"), knows.clean)


def test_ks_distance_is_scipys():
    from scipy.stats import ks_2samp

    draw = generator(0, "ks")
    a = torch.randn(40, 3, generator=draw).mul(4).round().div(4)
    b = torch.randn(55, 3, generator=draw).mul(4).round().div(4) + torch.tensor([0.0, 0.5, 0.0])
    slow = [ks_2samp(a[:, i].numpy(), b[:, i].numpy()).statistic for i in range(3)]
    torch.testing.assert_close(ks_distance(a, b), torch.tensor(slow).double())


def test_a_mask_is_read_from_distributions_alone():
    draw = generator(1, "codes")
    clean, codes = torch.randn(400, 20, generator=draw), torch.randn(300, 20, generator=draw)
    mask = random_mask((20,), draw)
    assert torch.equal(read_mask(codes, clean), torch.zeros(20))
    assert torch.equal(read_mask(codes + 0.8 * mask, clean), mask)


@pytest.mark.parametrize("rate", [0.0, 0.25, 0.5, 1.0])
def test_a_guess_overlaps_as_much_as_asked(rate):
    mask = random_mask((64,), generator(0))
    assert overlap(mask, mask_with_overlap(mask, rate, generator(1))) == rate


def test_a_decoder_that_is_told_to_stop_says_that_it_is_not_finished(encoder):
    knows, _, _ = world(encoder)
    heard = []

    def progress(part, loss):
        heard.append(part)
        return len(heard) < 3

    found = DecoderAttack()(knows, progress)
    assert len(heard) == 3 and all(claim.partial for claim in found)
    assert not DecoderAttack()(world(encoder, epochs=1)[0])[0].partial


def test_what_does_not_apply_is_explained(encoder):
    knows, _, _ = world(encoder, epochs=1)
    with pytest.raises(BadOption, match="no mask to read"):
        MaskReading()(knows)
    with pytest.raises(BadOption, match="no attribute 'age'"):
        AttributeAttack("age")(knows)
    with pytest.raises(BadOption, match="layer 'input'"):
        TakeAsIs()(knows)
    with pytest.raises(BadOption):
        DecoderAttack(width=0)
