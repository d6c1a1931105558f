"""Engine, metrics, policy scorer and every plugin's round on an accelerator: as on the CPU."""

import pretend
import pytest
import torch
from there import network, round_of
from torch.testing import assert_close

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import victims_of
from fedpriv.attacks.inversion.search import Search
from fedpriv.catalogue import METRICS
from fedpriv.clients.catalogue import PLUGINS, row_of
from fedpriv.device import moved
from fedpriv.engine.gradients import dense, gradients_at
from fedpriv.engine.trusted import explicit_engine
from fedpriv.policies.policy import Policy
from fedpriv.policies.scorer import Scorer
from fedpriv.simulations.judging.recordings import of_run
from fedpriv.state import state_of

PAIRS = {
    "labels": torch.randint(0, 5, (6,)),
    "attribute": torch.randint(0, 2, (6,)),
    "owner": torch.randint(0, 3, (6,)),
    "recognised": torch.randint(0, 5, (6,)),
    "nearest": torch.randint(0, 2, (6,)),
    "rate": torch.rand(6),
    "categories": torch.randint(0, 3, (6, 4)),
    "mask": torch.randint(0, 2, (6, 8)),
    "member": torch.rand(6, 2),
    "classes": torch.rand(6, 5),
    "features": torch.rand(6, 16),
    "faces": torch.rand(6, 16),
}


@pytest.mark.parametrize("name", list(METRICS))
def test_a_metric_gives_the_same_there(name, there):
    metric = METRICS.build(name)
    truth = PAIRS.get(metric.of, torch.rand(6, 1, 8, 8))
    guess = truth.roll(1, 0)
    with pretend.counted() as ran:
        found = metric(guess.to(there), truth.to(there))
    assert found.device == there
    assert_close(found.cpu(), metric(guess, truth), equal_nan=True)
    assert ran.made_there


@pytest.mark.parametrize("norm", [False, True])
def test_both_paths_of_the_engine_work_there(norm, there):
    model, x = network(norm=norm).eval(), torch.rand(3, 2, 1, 8, 8)
    t = torch.rand(3, 2, 5).softmax(2)
    weights = state_of(model)
    wanted = gradients_at(model, weights, {}, True, x, t)
    net, own, x, t = moved((model, weights, x, t), there)
    with pretend.counted() as ran:
        engine = explicit_engine(net, own, {}, (1, 8, 8))
        assert engine is not None
        x.requires_grad_()
        for found in (engine.gradients_at(x, t), gradients_at(net, own, {}, True, x, t)):
            for key, value in wanted.items():
                assert_close(dense(found[key]).cpu(), value, rtol=1e-4, atol=1e-6)
            total = torch.stack([dense(value).square().sum() for value in found.values()]).sum()
            assert torch.autograd.grad(total, x)[0].device == there
    assert ran.share > 0.8  # the weights of its check are drawn on the CPU


def test_the_policy_scorer_works_there(there):
    scorer = Scorer(
        semi_trained=network(),
        untrained=network(),
        x=torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8),
        y=torch.arange(4),
        batches=torch.randint(0, 256, (1, 4, 1, 8, 8), dtype=torch.uint8),
        mean=(0.5,),
        std=(0.5,),
        points=3,
    )
    policy = Policy.parse("4-5+18")
    with pretend.counted() as ran:
        other = scorer.on(there)
        assert other.privacy(policy, 0, 4) == pytest.approx(scorer.privacy(policy, 0, 4), abs=1e-4)
        found = other.accuracy(policy, 0, 1)
    assert found == pytest.approx(scorer.accuracy(policy, 0, 1), rel=1e-3)
    assert ran.made_there > 1000


WAYS = [(name, row_of(name).strong) for name in PLUGINS]
WAYS += [
    ("dp", {"noise-multiplier": 1.0, "grad-sample": way})
    for way in ("explicit", "ghost", "functorch")
]
WAYS += [("arl", {"lambda1": 1.0, "lambda2": 1.0, "mu1": 0.1, "mu2": 0.1})]


@pytest.mark.parametrize(("name", "options"), WAYS)
def test_a_plugin_works_there(name, options, run, there):
    with pretend.counted() as ran:
        found = round_of(name, dict(options), run, str(there))
    wanted = round_of(name, dict(options), run, "cpu")
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert_close(found[key], value, rtol=1e-4, atol=1e-5)
    assert ran.made_there > 1000


def test_chunks_follow_the_free_memory(there, monkeypatch, updates):
    victims = victims_of(moved(of_run(updates).updates[:2], there))
    monkeypatch.setattr(pretend, "FREE", 10 * victims.bytes_each())
    assert victims.that_fit(1.5) == 8  # of ten, a fifth is left to the device's library


def test_an_attack_that_does_not_fit_goes_on_in_halves(updates, monkeypatch, there):
    seen = of_run(updates).updates[:3]
    attack = ATTACKS.build("quick", {"steps": 3})
    wanted, plain = attack(seen), Search.run

    def full(self, progress):
        if len(self.victims) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return plain(self, progress)

    monkeypatch.setattr(Search, "run", full)
    assert_close(attack(moved(seen, there)).x.cpu(), wanted.x, rtol=1e-3, atol=1e-4)
