"""What preflight says of six recordings that were broken on purpose, and of sound ones."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedpriv.attacks.preflight import preflight, preflight_all
from fedpriv.engine.gradients import gradient_of
from fedpriv.evidence.observation import Observation
from fedpriv.state import state_of

from .conftest import CLASSES, observe, pictures, smooth_net, weighted


def train(model, x, y, *, lr=0.1, steps=1, scale=1.0, mode="eval"):
    """What a client really did, in the open: plain SGD on one batch."""
    sent = state_of(model)
    model.train(mode == "train")
    torch.manual_seed(0)
    for _ in range(steps):
        gradients = torch.autograd.grad(
            scale * cross_entropy(model(x), y), list(model.parameters())
        )
        with torch.no_grad():
            for value, gradient in zip(model.parameters(), gradients, strict=True):
                value -= lr * gradient
    return sent, state_of(model)


def recorded(model, sent, received, batch=1, **facts):
    return Observation(
        sent=sent,
        received=received,
        **{
            "classes": CLASSES,
            "input_shape": (1, 8, 8),
            "lr": 0.1,
            "batch_size": batch,
            "num_examples": batch,
            "mode": "eval",
            "model": model,
            **facts,
        },
    )


def with_norm():
    return weighted(
        nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.Sigmoid(),
            nn.Flatten(),
            nn.Linear(144, CLASSES),
        )
    )


def with_dropout():
    return weighted(
        nn.Sequential(
            nn.Flatten(), nn.Linear(64, 20), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(20, CLASSES)
        )
    )


def converged():
    model = smooth_net()
    x, y = pictures(1)
    with torch.no_grad():
        model[-1].bias[y] += 12.0
    return model, x, y


def broken(kind):
    x, y = pictures(1)
    if kind == "dropout":
        model = with_dropout()
        return recorded(model, *train(model, x, y, mode="train"), mode="train"), x, y
    if kind == "batch-norm":
        model = with_norm()
        x, y = pictures(4)
        return recorded(model, *train(model, x, y, mode="train"), batch=4), x, y
    if kind == "converged":
        model, x, y = converged()
        return recorded(model, *train(model, x, y)), x, y
    model = smooth_net()
    how = {
        "loss-scale": {"scale": 0.5},
        "learning-rate": {"lr": 0.03},
        "local-steps": {"steps": 4},
        "sound": {},
    }[kind]
    return recorded(model, *train(model, x, y, **how)), x, y


CAUSES = ["dropout", "batch-norm", "loss-scale", "learning-rate", "local-steps", "converged"]


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_is_named_without_the_truth(cause):
    seen, _, _ = broken(cause)
    assert preflight(seen).causes == (cause,)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_is_named_with_the_truth(cause):
    seen, x, y = broken(cause)
    result = preflight(seen, (x, y))
    assert result.causes[0] == cause
    assert set(result.layers) == {name for name, _ in seen.model.named_parameters()}


def test_a_sound_recording_is_let_through():
    seen, x, y = broken("sound")
    for truth in (None, (x, y)):
        result = preflight(seen, truth)
        assert not result.findings
        assert result.verdict == "an attack can work here"
    assert max(preflight(seen, (x, y)).layers.values()) < 1e-3


def test_too_many_steps_in_the_facts():
    seen, _, _ = broken("sound")
    assert "local-steps" in preflight(replace(seen, local_steps=4)).causes


def test_noise_is_estimated():
    seen, _, _ = broken("sound")
    noise = {
        k: v + 0.1 * 0.05 * torch.randn(v.shape, generator=torch.Generator().manual_seed(1))
        for k, v in seen.received.items()
    }
    (finding,) = [
        f for f in preflight(replace(seen, received=noise)).findings if f.cause == "noise"
    ]
    told = float(finding.detail.split("noise of about ")[1].split(" ")[0])
    assert 0.02 < told < 0.1


def test_sparsity_and_clipping_and_kinks():
    x, y = pictures(3)
    model = weighted(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, CLASSES))
    )
    pruned, clipped = [], []
    for seen in observe(model, x, y):
        delta = seen.delta
        cut = {k: v.where(v.abs() >= v.abs().quantile(0.7), 0) for k, v in delta.items()}
        pruned.append(replace(seen, received={k: seen.sent[k].double() + cut[k] for k in cut}))
        size = torch.cat([v.flatten() for v in delta.values()]).norm()
        clipped.append(
            replace(seen, received={k: seen.sent[k].double() + v / size for k, v in delta.items()})
        )
    assert "sparsity" in {f.cause for f in preflight(pruned[0]).findings}
    causes = {f.cause for result in preflight_all(clipped) for f in result.findings}
    assert {"clipping", "non-smooth"} <= causes


def test_signs_only():
    seen, _, _ = broken("sound")
    signs = {k: seen.sent[k] + 0.01 * v.sign() for k, v in seen.delta.items()}
    assert "optimiser" in {f.cause for f in preflight(replace(seen, received=signs)).findings}


def quiet_units(rows=1):
    """A table through ReLUs on one sample: many units are silent."""
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2)
    )
    x, y = torch.randn(rows, 30), torch.zeros(rows, dtype=torch.long)
    gradient = gradient_of(net, x, y)
    facts = {"classes": 2, "input_shape": (30,), "batch_size": rows, "num_examples": rows}
    return Observation.of_gradient(net.state_dict(), gradient, lr=0.1, **facts).on(net)


def test_silent_units_are_not_taken_for_pruning():
    seen = quiet_units()
    zeros = torch.cat([value.flatten() for value in seen.delta.values()]) == 0
    assert float(zeros.double().mean()) > 0.3
    assert "sparsity" not in {finding.cause for finding in preflight(seen).findings}


def test_pruning_is_found_among_silent_units():
    seen = quiet_units()
    draw = torch.Generator().manual_seed(0)
    received = {
        key: torch.where(torch.rand(value.shape, generator=draw) < 0.5, seen.sent[key], value)
        for key, value in seen.received.items()
    }
    causes = preflight(replace(seen, received=received)).findings
    assert "sparsity" in {finding.cause for finding in causes}


def adam_steps(steps=9):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, 10))
    sent = {key: value.clone() for key, value in net.state_dict().items()}
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        cross_entropy(net(torch.rand(32, 1, 12, 12)), torch.randint(10, (32,))).backward()
        optimiser.step()
    return Observation(
        sent=sent,
        received=net.state_dict(),
        classes=10,
        input_shape=(1, 12, 12),
        lr=1e-3,
        optimiser="adam",
        local_steps=steps,
        batch_size=32,
        num_examples=96,
    ).on(net)


def test_steps_of_adam_are_named_and_nothing_else_is():
    causes = [f.cause for f in preflight(adam_steps()).findings if f.severity != "note"]
    assert causes == ["optimiser", "local-steps", "batch-size"]


def test_what_nobody_told_comes_first_and_no_defence_is_made_up_from_it():
    names = ("lr", "optimiser", "local_steps", "batch_size", "mean", "std")
    seen = replace(
        adam_steps(), lr=1.0, optimiser="sgd", local_steps=1, batch_size=1, unknown=names
    )
    found = preflight(seen).findings
    assert found[0].cause == "not-told" and "--set local-steps=…" in found[0].detail
    assert {f.cause for f in found if f.severity != "note"} == {"not-told", "optimiser"}


def test_momentum_matters_from_the_second_step_on():
    seen = quiet_units()
    one, several = replace(seen, momentum=0.9), replace(seen, momentum=0.9, local_steps=3)
    assert "momentum" not in {finding.cause for finding in preflight(one).findings}
    assert {"momentum", "local-steps"} <= {f.cause for f in preflight(several).findings}


def test_augmentation_is_named_with_its_transformations():
    (found,) = [
        f
        for f in preflight(replace(quiet_units(), augmentation=("RandomCrop",))).findings
        if f.cause == "augmentation"
    ]
    assert "RandomCrop" in found.detail
