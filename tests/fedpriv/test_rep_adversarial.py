"""RAN and ARL: objectives against slow versions, neutral values equal to plain training."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.codes.coders import classifier, mlp_coder
from fedpriv.codes.decoding import Standardised
from fedpriv.codes.games import (
    Players,
    Rates,
    Stage,
    alternate,
    arl_objective,
    arl_stages,
    even,
    plain_stages,
    ran_objective,
    ran_stages,
    several_tasks,
)
from fedpriv.errors import WorkFailed


def fresh(seed: int = 0) -> tuple[Players, nn.Module]:
    torch.manual_seed(seed)
    coder = mlp_coder((6,), hidden=(8,), code=4)
    players = Players(coder.encoder(), classifier((4,), 5, hidden=(6,)), (3, 2))
    return players, coder.decoder()


def samples() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(24, 6, generator=draw)
    return x, torch.stack([x[:, 0].gt(0).long() + x[:, 1].gt(0).long(), x[:, 2].gt(0).long()], 1)


def trained(stages_of, epochs: int = 2) -> Players:
    players, decoder = fresh()
    x, y = samples()
    draw = torch.Generator().manual_seed(2)
    alternate(stages_of(players, decoder), x, y, epochs=epochs, batch=8, draw=draw)
    return players


def test_several_tasks_is_the_mean_of_their_cross_entropies():
    logits, y = torch.randn(7, 5), torch.stack([torch.arange(7) % 3, torch.arange(7) % 2], 1)
    slow = (
        sum(
            (cross_entropy(logits[i : i + 1, :3], y[i : i + 1, 0]) for i in range(7)),
            torch.zeros(()),
        )
        / 7
    )
    other = cross_entropy(logits[:, 3:], y[:, 1])
    torch.testing.assert_close(several_tasks(logits, y, (3, 2)), (slow + other) / 2)


def test_the_objectives_are_the_papers():
    task, pixels, seen = torch.tensor(2.0), torch.tensor(0.5), torch.tensor(0.25)
    assert float(ran_objective(task, pixels, 0.1)) == pytest.approx(0.1 * 2 - 0.9 * 0.5)
    assert float(arl_objective(task, pixels, seen, 2, 4)) == pytest.approx(2 - 2 * 0.5 - 4 * 0.25)


def test_one_adversarial_stage_of_ran_is_equation_4_pixel_by_pixel():
    players, decoder = fresh()
    x, y = samples()
    stage = ran_stages(players, decoder, Rates.of(1e-3), lam=0.3, k=1)[-1]
    slow = 0.0
    codes = players.encoder(x).detach()
    seen = (codes - codes.mean(0)) / (codes.std(0, correction=0) + 1e-3)
    for i in range(len(x)):
        task = several_tasks(players.classifier(codes[i : i + 1]), y[i : i + 1], (3, 2)).detach()
        gap = (decoder(seen[i : i + 1]) - x[i]).detach()
        error = sum(float(d) ** 2 for d in gap.flatten())  # a sum, as the paper has it
        slow += (0.3 * float(task) - 0.7 * error) / len(x)
    assert float(stage.loss(x, y).detach()) == pytest.approx(slow, rel=1e-5)


def test_an_encoder_gains_nothing_against_its_decoder_by_larger_codes():
    x = samples()[0]
    (players, decoder), wide = fresh(), mlp_coder((6,), hidden=(8,), code=4).encoder()
    with torch.no_grad():
        for larger, plain in zip(wide.parameters(), players.encoder.parameters(), strict=True):
            larger.copy_(plain)
        for parameter in wide[-1].parameters():
            parameter *= 1000
        small, large = even(players.encoder(x)), even(wide(x))
        torch.testing.assert_close(decoder(small), decoder(large), rtol=0.05, atol=0.05)


def test_algorithm_1_has_k_pairs_and_one_adversarial_step_a_batch():
    players, decoder = fresh()
    stages = ran_stages(players, decoder, Rates.of(1e-3), lam=0.3, k=3)
    assert len(stages) == 7
    assert stages[0] is stages[2] is stages[4] and stages[1] is stages[3] is stages[5]


def weights(players: Players) -> list[torch.Tensor]:
    return [*players.encoder.parameters(), *players.classifier.parameters()]


def test_ran_with_lambda_1_is_plain_training_bit_for_bit():
    ran = trained(lambda p, d: ran_stages(p, d, Rates.of(1e-2), lam=1.0, k=2))
    plain = trained(lambda p, d: plain_stages(p, 1e-2, k=2))
    assert all(torch.equal(a, b) for a, b in zip(weights(ran), weights(plain), strict=True))


def test_arl_with_both_lambdas_0_is_plain_training_bit_for_bit():
    arl = trained(lambda p, d: arl_stages(p, d, 1e-2, lambda1=0.0))
    plain = trained(lambda p, d: plain_stages(p, 1e-2))
    assert all(torch.equal(a, b) for a, b in zip(weights(arl), weights(plain), strict=True))


def test_an_encoder_trained_against_a_decoder_keeps_less_than_one_that_is_not():
    x, _ = samples()

    def recovered(players: Players) -> float:
        """What the best linear decoder leaves of x."""
        with torch.no_grad():
            z = players.encoder(x)
        design = torch.cat([z, torch.ones(len(z), 1)], dim=1)
        return float((x - design @ torch.linalg.lstsq(design, x).solution).square().mean())

    def arl(p: Players, d: nn.Module) -> list[Stage]:
        return arl_stages(p, d, 1e-2, lambda1=2.0, decoder_steps=2)

    assert recovered(trained(arl, 40)) > recovered(trained(lambda p, d: plain_stages(p, 1e-2), 40))


def test_a_decoder_learns_from_public_samples_alone():
    players, decoder = fresh()
    x, y = samples()
    asked = []

    def public():
        while True:
            asked.append(len(asked))
            yield x[:4]

    stages = arl_stages(players, decoder, 1e-2, lambda1=0.1, public=public())
    draw = torch.Generator().manual_seed(2)
    alternate(stages, x[4:], y[4:], epochs=1, batch=8, draw=draw)
    assert len(asked) == 3  # one batch of X2 for each of X1


def test_maps_are_standardised_by_channel_and_vectors_by_coordinate():
    z = torch.randn(50, 3, 4, 4) * torch.tensor([1.0, 10.0, 0.1]).view(3, 1, 1) + 5
    z[:, :, 0, 0] = 5 + torch.randn(50, 3) * 1e-4  # a position that hardly moves
    network = Standardised(z)
    assert network.deviation.shape == (3, 1, 1) and network(z)[:, :, 0, 0].abs().max() < 1
    assert Standardised(torch.randn(20, 7)).mean.shape == (7,)
    assert even(z).mean(dim=(0, 2, 3)).abs().max() < 1e-3


def test_divergence_is_reported():
    players, _ = fresh()
    x, y = samples()
    broken = Stage(lambda a, b: players.task(a, b) * float("nan"), players.stepper(1e-3))
    with pytest.raises(WorkFailed, match="diverged"):
        alternate([broken], x, y, epochs=1, batch=8, draw=torch.Generator())
