"""Scores against shadow federations and shadow clients, each against a slow loop."""

import numpy as np
import pytest
import torch
from scipy import stats

from fedpriv.attacks.inference.class_shares import drawn, on_simplex
from fedpriv.attacks.inference.references import (
    References,
    calibrated,
    inverse_trigamma,
    moderated,
    offline,
    online,
    pairwise,
    pooled,
)
from fedpriv.attacks.inference.shadow_clients import Ridge, trained
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.membership import false_alarms, rank
from fedpriv.models.mlp import mlp
from fedpriv.rng import generator
from fedpriv.simulations.judging.shadows import halves
from fedpriv.state import state_of

S, M, Z = 6, 40, 15


@pytest.fixture(scope="module")
def found():
    """Six shadows, 40 candidates and 15 samples nobody has; those that are in have more."""
    stream = generator(0, "references")
    inside = halves(S, M, 0)
    values = torch.randn(S, M + Z, generator=stream).double()
    values[:, :M] += 2.0 * inside
    seen = torch.randn(M + Z, generator=stream).double()
    return References(values, inside), seen


def sides(found, m):
    values, inside = found.own[:, m], found.inside[:, m]
    return values[inside].numpy(), values[~inside].numpy()


def common(found, side):
    """One deviation for all candidates, as LiRA takes with few shadows."""
    own = [sides(found, m)[side] for m in range(M)]
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in own)
    return np.sqrt(squares / (M * (S // 2 - 1)))


def test_every_candidate_is_in_half_of_the_shadows():
    assert (halves(6, 100, 1).sum(0) == 3).all()
    assert (halves(5, 100, 1).sum(0) == 2).all()


def test_lira_equals_a_loop_over_candidates(found):
    references, seen = found
    with_it, without = online(references, seen), offline(references, seen)
    spread = [common(references, side) for side in (0, 1)]
    for m in range(M):
        inside, outside = sides(references, m)
        log_in = stats.norm.logpdf(float(seen[m]), inside.mean(), spread[0])
        log_out = stats.norm.logpdf(float(seen[m]), outside.mean(), spread[1])
        assert float(with_it[m]) == pytest.approx(log_in - log_out)
        tail = stats.norm.logsf(float(seen[m]), outside.mean(), spread[1])
        assert float(without[m]) == pytest.approx(-tail)
        assert float(calibrated(references, seen)[m]) == pytest.approx(
            float(seen[m]) - outside.mean()
        )


def test_rmia_equals_a_loop_over_pairs(found):
    references, seen = found
    scores = pairwise(references, seen)
    chance = torch.sigmoid(references.values)
    target = torch.sigmoid(seen)
    for m in range(M):
        inside = references.inside[:, m]
        usual = (chance[inside, m].mean() + chance[~inside, m].mean()) / 2
        beaten = 0
        for z in range(M, M + Z):
            beaten += bool(target[m] / usual >= target[z] / chance[:, z].mean())
        assert float(scores[m]) == pytest.approx(beaten / Z, abs=2e-6)
    with pytest.raises(BadObservation, match="nobody trained on"):
        pairwise(References(references.own, references.inside), seen)


def test_the_pooled_form_is_better_with_four_shadows():
    """Candidates of unlike spread: one spread for all, or each its own, are both worse."""
    stream = generator(3, "pooled")
    many = 4000
    spread = torch.rand(many, generator=stream) * 3 + 0.2
    middle = 3 * torch.randn(many, generator=stream)
    inside = halves(4, many, 3)
    values = middle + 1.0 * inside + spread * torch.randn(4, many, generator=stream)
    member = torch.arange(many) < many // 2
    seen = middle + member + spread * torch.randn(many, generator=stream)
    references = References(values, inside)

    def auc(rule):
        scores = rule(references, seen)
        return float(rank(false_alarms(scores[member], scores[~member]), scores).mean())

    assert auc(pooled) > auc(online) + 0.01
    assert auc(pooled) > 0.6


def test_variances_that_differ_by_chance_alone_become_one():
    stream = generator(5, "variances")
    values = torch.randn(5, 20000, generator=stream).double()
    squares = (values - values.mean(0)).square().sum(0)
    alike = moderated(squares, torch.full((20000,), 4.0).double())
    assert float(alike.std()) < 0.05
    assert float(alike.mean()) == pytest.approx(1.0, abs=0.05)
    scales = torch.rand(20000, generator=stream).double() * 9 + 0.1
    unlike = moderated(squares * scales, torch.full((20000,), 4.0).double())

    def off(guess):
        return float((guess.log() - scales.log()).square().mean())

    assert off(unlike) < off(squares * scales / 4)  # each candidate's own
    assert off(unlike) < off(scales.mean().expand(20000))  # one for all
    assert inverse_trigamma(float(torch.special.polygamma(1, torch.tensor(3.0)))) == pytest.approx(
        3.0, rel=1e-5
    )


def test_two_shadows_are_too_few_for_a_spread():
    with pytest.raises(BadObservation, match="four or more"):
        pooled(References(torch.zeros(2, 3).double(), halves(2, 3, 0)), torch.zeros(3))
    with pytest.raises(BadObservation, match="Train two or more"):
        References(torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool))


def test_leaving_one_out_equals_fitting_without_it():
    stream = generator(0, "ridge")
    x = torch.randn(12, 5, generator=stream).double()
    y = x @ torch.randn(5, 2, generator=stream).double() + 0.1
    ridge = Ridge.fitted(x, y)
    assert float((ridge(x) - y).abs().max()) < 1e-3
    noisy = y + torch.randn(12, 2, generator=stream).double()
    fitted = Ridge.fitted(x, noisy)
    found = []
    for penalty in torch.logspace(-6, 2, 25, dtype=torch.float64):
        errors = torch.zeros(2).double()
        z = (x - x.mean(0)) / (x - x.mean(0)).square().mean(0).sum().sqrt()
        for i in range(12):
            rest = [j for j in range(12) if j != i]
            a = torch.cat([z[rest], torch.ones(11, 1).double()], 1)
            fine = torch.diag(torch.tensor([float(penalty)] * 5 + [0.0]).double())
            b = torch.linalg.solve(a.T @ a + fine, a.T @ noisy[rest])
            errors += (noisy[i] - torch.cat([z[i], torch.ones(1).double()]) @ b).square()
        found.append(errors / 12)
    best = min(found, key=lambda one: float(one.sum()))
    torch.testing.assert_close(fitted.error, best, rtol=1e-4, atol=1e-6)


def test_shares_are_drawn_to_the_nearest_that_add_up_to_one():
    shares = torch.tensor([[0.5, 0.8, -0.1], [0.2, 0.3, 0.5]])
    torch.testing.assert_close(
        on_simplex(shares), torch.tensor([[0.35, 0.65, 0.0], [0.2, 0.3, 0.5]])
    )
    assert sorted(drawn(torch.tensor([7, 9]), 4, generator(0, "drawn")).tolist()) == [7, 7, 9, 9]


def test_a_shadow_client_trains_as_torch_does():
    model = mlp(channels=1, size=4, classes=3)
    sent = state_of(model)
    x = torch.randn(10, 1, 4, 4, generator=generator(0, "x"))
    y = torch.arange(10) % 3
    seen = Observation(
        sent=sent,
        received=sent,
        classes=3,
        input_shape=(1, 4, 4),
        lr=0.1,
        momentum=0.5,
        local_steps=3,
        batch_size=10,
        num_examples=10,
    ).on(model)
    found = trained(seen, x, y, generator(0, "order"))
    model.load_state_dict(sent)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    for key, value in model.named_parameters():
        torch.testing.assert_close(found[key], value.detach() - sent[key], rtol=1e-4, atol=1e-6)
