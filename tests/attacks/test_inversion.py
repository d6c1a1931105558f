"""Inversions: victims stay apart, work fits into memory, searches stop and can be stopped."""

from dataclasses import replace

import pytest
import torch

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import GradientInversion, Stopping, _agreed
from fedpriv.attacks.inversion.initialisers import INITIALISERS, box, given, tiled
from fedpriv.attacks.inversion.labels import from_sign, known
from fedpriv.attacks.inversion.lbfgs import lbfgs
from fedpriv.attacks.inversion.optimizers import (
    Setting,
    adam,
    annealed,
    boxed,
    decayed,
    sgd,
    signed,
)
from fedpriv.attacks.inversion.recipes import inversion
from fedpriv.attacks.inversion.translation import moved
from fedpriv.engine.gradients import l2
from fedpriv.errors import BadObservation, BadOption
from fedpriv.evidence.victims import stack
from fedpriv.rng import generator
from fedpriv.state import state_of

from .conftest import observe, pictures, psnr, smooth_net


@pytest.mark.parametrize("name", ["dlg", "adam+cosine"])
def test_together_is_as_one_at_a_time(name, seen):
    observations, _, _ = seen
    attack = ATTACKS.build(name, {"steps": 12, "restarts": 2})
    together = attack(observations)
    for row, observation in enumerate(observations):
        alone = attack(observation)
        torch.testing.assert_close(alone.x[0], together.x[row], atol=2e-3, rtol=1e-2)
        torch.testing.assert_close(alone.loss[0], together.loss[row], atol=1e-6, rtol=1e-2)


def test_chunks_change_nothing(seen):
    observations, _, _ = seen
    whole = ATTACKS.build("idlg", {"steps": 8, "restarts": 2})(observations)
    split = ATTACKS.build("idlg", {"steps": 8, "restarts": 2, "memory": 1e-6})(observations)
    torch.testing.assert_close(split.x, whole.x, atol=2e-3, rtol=1e-2)
    assert split.names == whole.names


def test_models_of_their_own(seen):
    """Round robin: every client got another model."""
    x, y = pictures(2)
    one, other = smooth_net(seed=1), smooth_net(seed=2)
    observations = [
        observe(one, x[:1], y[:1])[0],
        replace(observe(other, x[1:], y[1:])[0], node=1, model=one),
    ]
    found = ATTACKS.build("idlg", {"steps": 60, "restarts": 1})(observations)
    assert psnr(found.pixels[:, 0], x).min() > 20


def test_a_consensus_is_the_mean_of_the_restarts_in_one_order():
    x = torch.arange(24.0).view(3, 2, 1, 2, 2)  # three rows of two samples each
    x[1] = x[0].flip(0) + 2  # the same samples, the other way round
    found = _agreed(x, [0, 0, 1], [0, 2])
    assert torch.equal(found, torch.stack([x[0] + 1, x[2]]))


def test_more_restarts_are_never_worse(seen):
    observations, _, _ = seen
    one, three = (
        ATTACKS.build("dlg", {"steps": 15, "restarts": n})(observations).loss for n in (1, 3)
    )
    assert (three <= 1.01 * one).all()


def test_progress_is_told_and_a_stop_keeps_the_best(seen):
    observations, _, _ = seen
    told = []

    def progress(part, loss):
        told.append((part, loss))
        return part <= 0.5

    found = ATTACKS.build("adam+cosine", {"steps": 60})(observations, progress)
    assert found.partial
    assert 30 <= found.extra["steps"] < 60
    assert found.x.shape[0] == 3
    assert told[-1][1] < told[0][1]


def test_a_search_stops_when_it_is_done(seen):
    observations, _, _ = seen
    attack = GradientInversion(
        l2, lbfgs(), labels=from_sign, steps=2000, stopping=Stopping(tolerance=1e-4), restarts=2
    )
    found = attack(observations)
    assert found.extra["steps"] < 500
    assert found.extra["evaluations"] < 6 * 500


def test_a_zero_update_is_refused(net):
    x, y = pictures(1)
    seen = observe(net, x, y)[0]
    still = replace(seen, received={k: v.double() for k, v in seen.sent.items()})
    with pytest.raises(BadObservation, match="zero everywhere"):
        ATTACKS.build("dlg")(still)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"memory": 0.0}, "memory must be above 0"),
        ({"distance": "l3"}, "'distance' must be one of 'l2'"),
        ({"stepz": 3}, "Did you mean 'steps'"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(BadOption, match=words):
        ATTACKS.build("adam+cosine", options)


def test_a_misspelt_attack():
    with pytest.raises(BadOption, match="Did you mean 'dlg'"):
        ATTACKS["dgl"]


def rosenbrock(scales):
    """One valley per row, each of its own steepness."""

    def evaluate(free, rows):
        scale = scales if rows is None else scales[rows]
        x = free[0].detach().requires_grad_()
        losses = scale * (x[:, 1] - x[:, 0] ** 2) ** 2 + (1 - x[:, 0]) ** 2
        return losses.detach(), list(torch.autograd.grad(losses.sum(), [x]))

    return evaluate


def test_lbfgs_goes_down_every_valley():
    free = [torch.tensor([[-1.2, 1.0]]).repeat(3, 1)]
    optimizer, evaluate = lbfgs()(Setting(100)), rosenbrock(torch.tensor([1.0, 10.0, 100.0]))
    last = torch.full((3,), torch.inf)
    for _ in range(100):
        losses = optimizer.step(free, evaluate)
        assert (losses <= last).all()
        last = losses
    torch.testing.assert_close(free[0], torch.ones(3, 2), atol=1e-2, rtol=0)


def test_lbfgs_keeps_the_victims_apart():
    scales = torch.tensor([1.0, 100.0])
    both, alone = [torch.tensor([[-1.2, 1.0]]).repeat(2, 1)], [torch.tensor([[-1.2, 1.0]])]
    joint, single = lbfgs()(Setting(20)), lbfgs()(Setting(20))
    for _ in range(20):
        joint.step(both, rosenbrock(scales))
        single.step(alone, rosenbrock(scales[1:]))
    torch.testing.assert_close(both[0][1:], alone[0], atol=1e-4, rtol=1e-3)


def test_lbfgs_survives_losing_rows():
    free = [torch.tensor([[-1.2, 1.0]]).repeat(3, 1)]
    scales = torch.tensor([1.0, 10.0, 100.0])
    optimizer = lbfgs()(Setting(100))
    for _ in range(5):
        optimizer.step(free, rosenbrock(scales))
    keep = torch.tensor([0, 2])
    optimizer.rows(keep)
    free = [free[0][keep]]
    for _ in range(95):
        optimizer.step(free, rosenbrock(scales[keep]))
    torch.testing.assert_close(free[0], torch.ones(2, 2), atol=1e-2, rtol=0)


def quadratic(free, rows):
    return free[0].square().sum(1), [2 * free[0]]


@pytest.mark.parametrize(
    "make",
    [adam(0.1), sgd(0.05), signed(sgd(0.01)), annealed(adam(0.1)), decayed(signed(adam(0.1)))],
)
def test_first_order_methods_reach_the_minimum(make):
    free = [torch.tensor([[1.0, -2.0], [0.5, 0.1]])]
    optimizer = make(Setting(200))
    for _ in range(200):
        optimizer.step(free, quadratic)
    assert free[0].abs().max() < 0.15


def test_adam_is_torchs_adam():
    from fedpriv.eager import skip_compiler

    skip_compiler()
    x = torch.tensor([[1.0, -2.0]], requires_grad=True)
    reference = torch.optim.Adam([x], lr=0.1)
    free, own = [x.detach().clone()], adam(0.1)(Setting(10))
    for _ in range(10):
        reference.zero_grad()
        x.square().sum().backward()
        reference.step()
        own.step(free, quadratic)
    torch.testing.assert_close(free[0], x.detach())


def test_the_box_holds():
    free = [torch.tensor([[3.0, -3.0]])]
    low, high = torch.tensor(-1.0), torch.tensor(1.0)
    boxed(sgd(1e-3))(Setting(1, (low, high))).step(free, quadratic)
    assert free[0].tolist() == [[1.0, -1.0]]


def test_the_schedule():
    optimizer = decayed(sgd(1.0))(Setting(8))
    rates = []
    for _ in range(8):
        optimizer.step([torch.zeros(1, 1)], quadratic)
        rates.append(round(optimizer.lr, 6))
    assert rates == [1, 1, 1, 0.1, 0.1, 0.01, 0.01, 0.001]


def test_starts_differ_by_victim_and_restart_and_repeat_by_seed(seen):
    victims = stack(seen[0]).rows([0, 0, 1])
    for name in ("gaussian", "uniform", "patterned"):
        x = INITIALISERS[name](victims, [0, 1, 0], 5)
        assert x.shape == (3, 1, 1, 8, 8)
        assert not torch.equal(x[0], x[1]) and not torch.equal(x[0], x[2])
        assert torch.equal(x, INITIALISERS[name](victims, [0, 1, 0], 5))
    assert INITIALISERS["black"](victims, [0, 0, 0], 0).max() == 0
    assert INITIALISERS["grey"](victims, [0, 0, 0], 0).unique().tolist() == [0.5]
    image = torch.rand(1, 1, 8, 8)
    assert torch.equal(given(image)(victims, [0, 0, 0], 0)[2], image)


def test_a_tile_is_repeated():
    x = tiled((1, 3, 32, 32), generator(0, "tile"))
    assert torch.equal(x[..., :8, :8], x[..., 8:16, 24:])


def test_the_box_is_normalised(net):
    x, y = pictures(1)
    seen = observe(net, x, y, mean=(0.5,), std=(0.25,))[0]
    low, high = box(seen)
    assert (low.unique().tolist(), high.unique().tolist()) == ([-2.0], [2.0])


def test_known_labels_must_fit(seen):
    with pytest.raises(BadOption, match="known labels"):
        GradientInversion(l2, lbfgs(), labels=known(torch.zeros(2, 1, dtype=torch.long)))(seen[0])


def test_pooled_rounds_beat_one_noisy_round():
    x, y = pictures(2)
    rounds = []
    for number in range(4):
        net = smooth_net(seed=number)
        for seen in observe(net, x, y, round=number):
            stream = generator(number, "noise", seen.node)
            noisy = {
                k: v + 0.1 * torch.randn(v.shape, generator=stream).double()
                for k, v in seen.received.items()
            }
            rounds.append(replace(seen, received=noisy, model=rounds[0].model if rounds else net))
    attack = ATTACKS.build("noise-aware", {"steps": 80, "tv": 0.01})
    one, all_ = attack(rounds[:2]), attack(rounds)
    gain = psnr(all_.pixels[:, 0], x) - psnr(one.pixels[:, 0], x)
    assert gain.mean() > 1
    with pytest.raises(BadObservation, match="same nodes in every round"):
        attack(rounds[:3])


def test_matching_where_shared_beats_matching_zeros():
    x, y = pictures(2)
    net = smooth_net()
    pruned = []
    for seen in observe(net, x, y):
        cut = {k: v.where(v.abs() >= v.abs().quantile(0.8), 0) for k, v in seen.delta.items()}
        pruned.append(replace(seen, received={k: seen.sent[k].double() + cut[k] for k in cut}))
    options = {"signed": True, "schedule": "cosine", "box": True, "tv": 1e-3, "steps": 100}
    plain = inversion(**options)(pruned)
    aware = inversion(**options, shared_only=True)(pruned)
    assert psnr(aware.pixels[:, 0], x).mean() > psnr(plain.pixels[:, 0], x).mean() + 1


def test_replay_beats_the_mean_gradient():
    x, y = pictures(4)
    net = smooth_net()
    from fedpriv.evidence.observation import Observation

    blank = Observation(
        sent=state_of(net),
        received=state_of(net),
        classes=5,
        input_shape=(1, 8, 8),
        lr=1.0,
        local_steps=4,
        batch_size=1,
        num_examples=4,
        mode="eval",
        model=net,
    )
    order = y.argsort()
    moved = stack([blank]).update_at(x[order][None], y[order][None])
    moved = {key: value[0] for key, value in moved.items()}
    seen = replace(blank, received={k: v.double() + moved[k] for k, v in blank.sent.items()})
    options = {"steps": 80, "tv": 1e-4, "box": True, "schedule": "cosine", "lr": 0.05}
    label = known(y[order][None])
    scores = []
    for replay in (True, False):
        found = replace(inversion(**options, replay=replay), labels=label)(seen)
        scores.append(psnr(found.pixels[0], x[order]).mean())
    assert scores[0] > scores[1] + 3


def test_moved_by_whole_pixels_is_a_shift_with_repeated_edges():
    x = torch.rand(2, 3, 1, 8, 8)
    right = moved(x, torch.tensor([2.0, 0.0]).expand(2, 3, 2))
    torch.testing.assert_close(right[..., 2:], x[..., :-2])
    torch.testing.assert_close(right[..., :2], x[..., :1].expand(2, 3, 1, 8, 2))
    down = moved(x, torch.tensor([0.0, 1.0]).expand(2, 3, 2))
    torch.testing.assert_close(down[..., 1:, :], x[..., :-1, :])


def test_a_translation_is_learned_along_with_the_image():
    """From the original on, a client's move is explained by the move and not by another image."""
    x, y = pictures(3)
    by = torch.tensor([[1.5, 0.0], [0.0, -1.0], [-1.0, 1.0]])
    victims = observe(smooth_net(), moved(x, by), y)
    still = inversion(signed=True, box=True, schedule="cosine", lr=0.005, tv=1e-3, steps=150)
    still = replace(still, init=given(x[:, None]))
    drifted = psnr(still(victims).pixels[:, 0], x)
    learned = psnr(replace(still, translation=True)(victims).pixels[:, 0], x)
    assert (learned > drifted).all()


def test_an_explained_update_is_finished_in_double_precision(seen):
    """And one that noise keeps from being explained is left as it was."""
    observations, _, _ = seen
    options = {"steps": 200, "restarts": 1}
    rough = ATTACKS.build("idlg", {**options, "finish": 0})(observations)
    found = ATTACKS.build("idlg", options)(observations)
    assert any(found.extra["exact"])
    for row, exact in enumerate(found.extra["exact"]):
        if exact:
            assert found.loss[row] < 0.5 * rough.loss[row]
            assert found.x.dtype == torch.float32
        else:
            assert torch.equal(found.x[row], rough.x[row])
    noise = {
        key: value + value.abs().mean() * torch.randn(value.shape, generator=generator(0, key))
        for key, value in observations[0].received.items()
    }
    noisy = replace(observations[0], received=noise)
    assert "exact" not in ATTACKS.build("idlg", {**options, "steps": 30})(noisy).extra
