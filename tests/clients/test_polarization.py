"""Secret polarization against a slow loop, the paper's bounds, and what a client keeps."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from messages import answered, ask, context_of
from torch import nn

from fedpriv.catalogue import MODELS
from fedpriv.clients.job import make_job
from fedpriv.clients.plugins.polarization import (
    SecretHead,
    SecretPolarization,
    TwoHeads,
    class_codes,
    polarization_loss,
)
from fedpriv.models.heads import last_linear
from fedpriv.rng import SeededDraws
from fedpriv.scenario import from_tables
from fedpriv.scenario.built import first_state
from fedpriv.wire import MEMORY, state_in


def vectors(seed, count, bits):
    draw = SeededDraws(torch.Generator().manual_seed(seed))
    v = draw.normal((count, bits)) * 3
    return v, class_codes(1, bits, draw)[0]


def hamming(b, t):
    """½(K − b·t) between codes of ±1 (SPN lemma 5.5)."""
    return (len(t) - b @ t) / 2


def binary(v):
    return torch.where(v > 0, 1.0, -1.0)


@given(st.integers(0, 10**6), st.integers(1, 96), st.floats(1, 5))
def test_the_loss_bounds_the_hamming_distance(seed, bits, margin):
    """SPN lemma 5.5."""
    v, t = vectors(seed, 1, bits)
    assert hamming(binary(v[0]), t) <= polarization_loss(v, t, margin)[0] + 1e-4


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 64))
def test_the_mean_loss_bounds_distances_within_a_class(seed, count, bits):
    """SPN proposition 5.1."""
    v, t = vectors(seed, count, bits)
    b = binary(v)
    pairs = sum(hamming(one, other) for one in b for other in b) / count**2
    assert pairs <= 2 / count * polarization_loss(v, t).sum() + 1e-4


def slow_gradients(job, x, y, plugin):
    """Eq. 6 by loops: (u_c − y_c)·∂u_c plus −t_k·∂v_k over the bits within the margin.

    The paper's (y_c − u_c) has the sign of descent: cross-entropy's gradient is its negative.
    """
    params = list(job.shared.parameters())
    total = [torch.zeros_like(p) for p in params]
    secret = job.kept(SecretHead)
    codes, head = secret.codes, secret.head

    def add(scale, output):
        found = torch.autograd.grad(output, params, retain_graph=True, allow_unused=True)
        for into, gradient in zip(total, found, strict=True):
            if gradient is not None:
                into += scale * gradient

    for sample, label in zip(x, y, strict=True):
        logits = job.shared(sample[None])[0]
        probabilities = logits.softmax(0).detach()
        for c in range(len(logits)):
            wanted = float(c == label)
            add(plugin.alpha1 * (probabilities[c] - wanted) / len(x), logits[c])
        features = job.shared[:-1](sample[None])
        v = head(features)[0]
        for k in range(plugin.bits):
            if plugin.margin - v[k] * codes[label][k] > 0:
                add(plugin.alpha2 * -codes[label][k] / len(x), v[k])
    return total


def job_of(tiny, plugin):
    return plugin.on_setup(make_job(tiny, first_state(tiny), 1, context_of(tiny)))


def test_gradients_are_equation_6(tiny):
    plugin = SecretPolarization(alpha1=0.8, alpha2=0.3, bits=7, margin=1.5)
    job = job_of(tiny, plugin)
    x, y = job.x[:3], job.y[:3]
    job.loss(job.model(x), y).backward()
    for p, slow in zip(job.shared.parameters(), slow_gradients(job, x, y, plugin), strict=True):
        torch.testing.assert_close(p.grad, slow, rtol=1e-4, atol=1e-6)


def test_the_public_head_feels_nothing_of_the_secret_one(tiny):
    """Why an attacker who knows of SPN reads the features off the public head."""
    gradients = []
    for alpha2 in (0.0, 0.5):
        job = job_of(tiny, SecretPolarization(alpha2=alpha2))
        job.loss(job.model(job.x[:1]), job.y[:1]).backward()
        gradients.append(last_linear(job.shared)[1].weight.grad)
    assert torch.equal(*gradients)


def test_every_classifier_takes_a_second_head():
    for name in MODELS:
        model = MODELS.build(name, {}, channels=3, size=32, classes=10).eval()
        _, public = last_linear(model)
        x = torch.rand(2, 3, 32, 32)
        u, v = TwoHeads(model, public, nn.Linear(public.in_features, 8))(x)
        assert u.shape == (2, 10) and v.shape == (2, 8)
        torch.testing.assert_close(u, model(x))


def test_head_codes_and_optimiser_stay_from_round_to_round(tiny):
    tables = tiny.plain() | {
        "training": {"optimiser": "adam", "lr": 0.01, "local-steps": 2},
        "plugins": [{"name": "spn", "alpha2": 0.5}],
    }
    scenario = from_tables(tables)
    context, kept = context_of(scenario), []
    for server_round in (1, 2):
        answered(ask(scenario, context, server_round=server_round))
        kept.append(state_in(context.state[MEMORY + "spn"]))
    first, second = kept
    assert torch.equal(first["codes"], second["codes"])
    assert not torch.equal(first["weight"], second["weight"])
    steps = [float(memory["optimiser/weight/step"]) for memory in kept]
    assert steps == [2, 4]


def test_width_and_rate_of_the_head_are_its_own(tiny):
    job = job_of(tiny, SecretPolarization(width=0.3, lr=0.25))
    weight = job.kept(SecretHead).head.weight
    assert 0.29 < weight.abs().max() <= 0.3
    assert [group["lr"] for group in job.optimiser.param_groups] == [0.1, 0.25]


def test_clients_have_codes_of_their_own(tiny):
    codes = []
    for secret in (1, 2):
        context = context_of(tiny, secret_seed=secret)
        job = SecretPolarization().on_setup(make_job(tiny, first_state(tiny), 1, context))
        codes.append(job.kept(SecretHead).codes)
    assert not torch.equal(*codes)
    assert set(codes[0].unique().tolist()) == {-1.0, 1.0}
