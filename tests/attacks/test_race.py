"""The race: planted clients are like the victims, the ranking is right, the work is bounded."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.control import leaves, planted
from fedpriv.attacks.inversion.polishing import Polished
from fedpriv.attacks.inversion.race import Strongest, quality, race
from fedpriv.attacks.inversion.recipes import inversion
from fedpriv.errors import BadOption
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.rng import generator
from fedpriv.state import state_of

from .conftest import CLASSES, SHAPE, observe, pictures, psnr, smooth_net


def trained(steps=2, batch=2, **facts):
    """One client that took several local steps, as an observation."""
    net = smooth_net()
    sent = state_of(net)
    x, y = pictures(steps * batch)
    rule = torch.optim.SGD(net.parameters(), lr=0.1)
    for k in range(steps):
        rule.zero_grad()
        own = slice(k * batch, (k + 1) * batch)
        nn.functional.cross_entropy(net(x[own]), y[own]).backward()
        rule.step()
    options = {
        "classes": CLASSES,
        "input_shape": SHAPE,
        "lr": 0.1,
        "mode": "eval",
        "local_steps": steps,
        "batch_size": batch,
        "num_examples": steps * batch,
        "model": net,
        **facts,
    }
    return Observation(sent=sent, received=state_of(net), **options), x, y


def test_made_up_pictures_have_edges_and_surfaces():
    x = leaves(6, (3, 32, 32), generator(0, "leaves"))
    assert x.shape == (6, 3, 32, 32) and x.min() >= 0 and x.max() <= 1
    rough = x.diff(dim=-1).abs().mean()
    shuffled = x.flatten(2)[..., torch.randperm(1024, generator=generator(0, "p"))].view_as(x)
    assert rough < 0.4 * shuffled.diff(dim=-1).abs().mean()
    assert x.flatten(1).std(1).min() > 0.05


def test_a_planted_client_sends_what_the_protocol_makes_of_its_samples(seen):
    victims = stack(seen[0])
    control, x, y = planted(victims, 2)
    own = observe(victims.model, x.flatten(0, 1), y.flatten())
    for row, one in enumerate(own):
        for key, value in one.gradient.items():
            torch.testing.assert_close(control.gradient[key][row], value, rtol=1e-3, atol=1e-5)


def test_a_planted_client_takes_as_many_local_steps():
    one, _, _ = trained()
    victims = stack([one])
    control, x, y = planted(victims, 2)
    again = victims.rows([0, 0]).update_at(x, y)
    for key, value in again.items():
        torch.testing.assert_close(control.delta[key], value)


def test_a_planted_client_prunes_as_much(seen):
    one = seen[0][0]
    received = {
        key: torch.where(torch.rand(v.shape, generator=generator(0, key)) < 0.3, v, one.sent[key])
        for key, v in one.received.items()
    }
    victims = stack([replace(one, received=received)])
    control, _, _ = planted(victims, 2)
    for key, value in victims.delta.items():
        kept = int((value[0] != 0).sum())
        assert [int((row != 0).sum()) for row in control.delta[key]] == [kept, kept]


def test_public_samples_are_taken_if_given(seen):
    victims = stack(seen[0])
    public, _ = pictures(5, seed=9)
    _, x, _ = planted(victims, 2, public=public)
    assert all(any(torch.equal(one, known) for known in public) for one in x.flatten(0, 1))
    with pytest.raises(BadOption, match="public samples must be"):
        planted(victims, 2, public=torch.zeros(4, 3))


def test_the_better_attack_wins_and_the_work_is_bounded(seen):
    victims = stack(seen[0])
    good = inversion(signed=True, schedule="cosine", box=True, lr=0.1, tv=1e-3, steps=200)
    bad = inversion(lr=1e-4, steps=200)
    ranking = race(victims, {"bad": bad, "good": good}, controls=2, evaluations=400)
    assert ranking.winner == "good" and [place.name for place in ranking.places][1] == "bad"
    assert ranking.evaluations <= 400 and not ranking.left_out
    tight = race(victims, {"bad": bad, "good": good}, controls=2, evaluations=90)
    assert tight.left_out == ("good",) and tight.evaluations <= 90
    assert ranking.told()[0][0] == "good"


def test_the_race_is_the_same_again(seen):
    victims = stack(seen[0])
    runs = [ATTACKS.build("strongest", {"steps": 60, "polish": 20})(victims) for _ in range(2)]
    assert torch.equal(runs[0].x, runs[1].x) and runs[0].extra == runs[1].extra


def test_the_strongest_attack_wins_on_the_toy_and_says_how(seen):
    observations, x, y = seen
    found = ATTACKS.build("strongest", {"steps": 150, "polish": 200})(observations)
    assert psnr(found.x[:, 0], x).min() > 25
    assert found.labels.flatten().tolist() == y.tolist()
    assert found.extra["won"] == found.extra["ranking"][0][0]
    assert found.extra["race-evaluations"] <= 0.5 * 3 * 150
    plain = inversion(signed=True, schedule="cosine", box=True, tv=0.01, steps=150)(observations)
    assert quality(found, x[:, None]).mean() > quality(plain, x[:, None]).mean()


def test_several_local_steps_are_replayed():
    one, _, _ = trained()
    found = ATTACKS.build("strongest", {"steps": 60, "polish": 30})(one)
    assert found.x.shape == (1, 4, *SHAPE)


def test_a_noisy_update_is_not_matched_exactly(seen):
    observations, _, _ = seen
    noisy = []
    for one in observations:
        received = {
            key: value
            + 0.3 * one.delta[key].std() * torch.randn(value.shape, generator=generator(1, key))
            for key, value in one.received.items()
        }
        noisy.append(replace(one, received=received))
    attack = ATTACKS.build("strongest", {"steps": 100, "polish": 100})
    found = attack(noisy)
    assert found.extra["polished"] == [False] * 3
    assert attack(observations).extra["polished"] == [True] * 3


def test_a_stop_leaves_a_claim(seen):
    found = ATTACKS.build("strongest", {"steps": 60})(seen[0], lambda part, loss: part < 0.1)
    assert found.partial and found.x.shape[1:] == (1, *SHAPE)


def test_a_race_needs_candidates(seen):
    with pytest.raises(BadOption, match="at least one candidate"):
        race(stack(seen[0]), {})


def test_polishing_is_exact_where_the_net_is_smooth(seen):
    observations, x, _ = seen
    rough = inversion(signed=True, schedule="cosine", box=True, lr=0.1, tv=1e-2, steps=100)
    found = Polished(rough, 300)(observations)
    assert (psnr(found.x[:, 0], x) > psnr(rough(observations).x[:, 0], x) + 5).all()
    assert Polished(rough, 0)(observations).extra["polished"] == [False] * 3
    assert isinstance(ATTACKS.build("strongest", {}), Strongest)


def test_a_coarse_search_ends_with_all_pixels(seen):
    observations, x, _ = seen
    options = {"signed": True, "schedule": "cosine", "box": True, "tv": 1e-3, "steps": 120}
    found = inversion(**options, coarse=2)(observations)
    assert found.x.shape == (3, 1, *SHAPE) and psnr(found.x[:, 0], x).min() > 15
    with pytest.raises(BadOption, match="coarse must be at least 1"):
        inversion(coarse=0)
