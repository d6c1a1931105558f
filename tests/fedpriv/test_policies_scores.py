"""S_pri and S_acc against slow loops."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fedpriv.engine.gradients import dense, gradient_of
from fedpriv.errors import BadData
from fedpriv.policies import Policy
from fedpriv.policies import scorer as scorer_module
from fedpriv.policies.accuracy_score import accuracy_score, correlation_score, jacobian
from fedpriv.policies.privacy_score import area, curve, sample_gradients
from fedpriv.policies.scorer import Scorer
from fedpriv.rng import generator

SHAPE, CLASSES, POINTS = (3, 12, 12), 5, 4


class Odd(nn.Module):
    """A layer that has no explicit rule."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, 1.0, 2.0]))

    def forward(self, x):
        return x * self.scale.view(-1, 1, 1).cos()


def network(odd=False):
    torch.manual_seed(3)
    first = [Odd()] if odd else []
    model = nn.Sequential(
        *first,
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(150, CLASSES),
    )
    model(torch.rand(64, *SHAPE))  # running statistics that are not 0 and 1
    return model.eval()


@pytest.fixture
def batch():
    draw = generator(0, "batch")
    x0, x = torch.rand((2, 7, *SHAPE), generator=draw)
    return x0, x, torch.randint(CLASSES, (7,), generator=draw)


def slow_curve(model, x0, x, y, reduction):
    """One image, one point, one parameter at a time."""

    def gradient(image, label):
        loss = cross_entropy(model(image[None]), label[None])
        return torch.autograd.grad(loss, list(model.parameters()))

    rows = []
    for start, image, label in zip(x0, x, y, strict=True):
        wanted, row = gradient(image, label), []
        for j in range(POINTS + 1):
            i = j / POINTS
            found = gradient((1 - i) * start + i * image, label)
            if reduction == "layer":
                pairs = zip(found, wanted, strict=True)
                each = [cosine_similarity(a.flatten(), b.flatten(), 0) for a, b in pairs]
                row.append(sum(each) / len(each))
            else:
                a, b = (torch.cat([part.flatten() for part in side]) for side in (found, wanted))
                row.append(cosine_similarity(a, b, 0))
        rows.append(torch.stack(row))
    return torch.stack(rows)


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("reduction", ["global", "layer"])
def test_gradient_similarity_equals_a_slow_loop(batch, reduction, odd):
    x0, x, y = batch
    model = network(odd)
    found = curve(sample_gradients(model, SHAPE), x0, x, y, POINTS, reduction)
    slow = slow_curve(model, x0, x, y, reduction)
    assert torch.allclose(found, slow.detach(), atol=1e-4)
    assert torch.allclose(found[:, -1], torch.ones(len(x)), atol=1e-5)


def test_known_gradients_at_the_start_change_nothing(batch):
    x0, x, y = batch
    gradients = sample_gradients(network(), SHAPE)
    known = curve(gradients, x0, x, y, POINTS, at_start=gradients(x0, y))
    assert torch.allclose(known, curve(gradients, x0, x, y, POINTS), atol=1e-6)


def test_areas_of_a_worked_curve():
    line = torch.tensor([[0.0, 0.5, 1.0], [0.2, 0.2, 1.0]])
    assert area(line).tolist() == pytest.approx([0.25, 0.2])
    assert area(line, "trapezoid").tolist() == pytest.approx([0.5, 0.4])


def test_a_gradient_that_vanishes_resembles_nothing(batch):
    x0, x, y = batch
    model = network()
    with torch.no_grad():
        model[-1].weight.zero_()
        model[-1].bias.copy_(torch.tensor([200.0, 0, 0, 0, 0]))
    found = curve(sample_gradients(model, SHAPE), x0, x, torch.zeros_like(y), POINTS)
    assert torch.equal(found, torch.zeros_like(found))


def test_gradients_of_a_confident_model_are_compared_all_the_same(batch):
    """Their squares multiplied would underflow, and cosines come out in the thousands."""
    x0, x, y = batch
    model = network()
    with torch.no_grad():
        model[-1].bias.copy_(torch.tensor([32.0, 0, 0, 0, 0]))
    y = torch.zeros_like(y)
    found = curve(sample_gradients(model, SHAPE), x0, x, y, POINTS)
    assert found.abs().max() <= 1
    assert found[:, -1].tolist() == pytest.approx([1.0] * len(x), abs=1e-3)  # with itself


def test_the_neutral_policy_gives_exactly_the_undefended_gradient():
    model = network()
    x = torch.randint(256, (4, *SHAPE), generator=generator(1), dtype=torch.uint8)
    y = torch.arange(4)
    same = Policy.parse("none")(x, generator(2))
    plain, treated = (gradient_of(model, part.float() / 255, y) for part in (x, same))
    assert all(torch.equal(plain[name], treated[name]) for name in plain)
    found = sample_gradients(model, SHAPE)(same.float() / 255, y)
    for name, values in found.items():
        assert torch.allclose(dense(values).mean(0), plain[name], atol=1e-6)


def test_accuracy_score_equals_a_slow_loop(batch):
    _, x, _ = batch
    model = network()
    rows = []
    for image in x:
        image = image[None].clone().requires_grad_()
        (slope,) = torch.autograd.grad(sum(model(image)[0]), image)
        rows.append(slope.flatten().double().numpy())
    values = np.linalg.eigvals(np.corrcoef(np.stack(rows))).real
    expected = -sum(np.log(v + 1e-5) + 1 / (v + 1e-5) for v in values) / len(values)
    assert float(accuracy_score(model, x)) == pytest.approx(expected, rel=1e-5)
    assert float(accuracy_score(model, x, "sum")) == pytest.approx(len(x) * expected, rel=1e-5)


def test_accuracy_score_is_best_for_images_told_apart():
    apart = torch.zeros(4, 8)
    apart[torch.arange(4), torch.arange(4)], apart[torch.arange(4), torch.arange(4) + 4] = 1, -1
    alike = apart[:1] + 0.01 * apart
    assert float(correlation_score(apart)) == pytest.approx(-1, abs=1e-4)
    assert correlation_score(alike) < correlation_score(apart)
    assert correlation_score(apart * torch.tensor([[1.0], [1], [1], [0]])) < -1e4


def test_a_jacobian_leaves_the_model_as_it_was(batch):
    model = network().train()
    before = model[1].running_mean.clone()
    jacobian(model, batch[1])
    assert model.training and torch.equal(model[1].running_mean, before)


def scorer(**options):
    x = torch.randint(256, (9, *SHAPE), generator=generator(1), dtype=torch.uint8)
    batches = torch.randint(256, (3, 6, *SHAPE), generator=generator(2), dtype=torch.uint8)
    parts = (network(), network(), x, torch.arange(9) % CLASSES, batches)
    return Scorer(*parts, (0.5,) * 3, (0.25,) * 3, points=POINTS, **options)


def test_scores_do_not_depend_on_how_they_are_split():
    policy, ours = Policy.parse("3-1-7+43-18-18"), scorer()
    whole = ours.privacy(policy, 0, 9)
    parts = scorer().privacy(policy, 0, 2) + ours.privacy(policy, 2, 9)
    assert whole == pytest.approx(parts, abs=1e-5)
    assert ours.accuracy(policy, 0, 3) == ours.accuracy(policy, 0, 1) + ours.accuracy(policy, 1, 3)
    assert whole != pytest.approx(scorer(seed=1).privacy(policy, 0, 9), abs=1e-3)


def test_gradients_that_do_not_fit_are_computed_again(monkeypatch):
    policy, kept = Policy.parse("3-1-7"), scorer()
    expected = kept.privacy(policy, 0, 9)
    monkeypatch.setattr(scorer_module, "REMEMBERED", 1)
    again = scorer()
    assert again.privacy(policy, 0, 9) == pytest.approx(expected, abs=1e-5)
    assert again._at_start is None and kept._at_start is not None


def test_only_pictures_of_bytes_are_scored():
    parts = (network(), network(), torch.rand(2, *SHAPE), torch.zeros(2).long(), torch.zeros(1))
    with pytest.raises(BadData, match="uint8"):
        Scorer(*parts, (0.5,), (0.5,))
