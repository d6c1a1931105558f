"""Membership scores against slow loops, and what must be chance."""

from dataclasses import replace

import pytest
import torch

from fedpriv.attacks.inference.class_shares import mixture
from fedpriv.attacks.inference.membership import against_others, confidence, cosine, difference
from fedpriv.attacks.inference.owners import fits_best
from fedpriv.attacks.inference.series import Series, losses
from fedpriv.catalogue import METRICS
from fedpriv.engine.gradients import gradient_of
from fedpriv.errors import BadInput, BadScenario
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.holdings import presence
from fedpriv.metrics.labels import overlap
from fedpriv.metrics.membership import auc_error, exposure, false_alarms, found, rank, rate
from fedpriv.models.mlp import mlp
from fedpriv.rng import generator
from fedpriv.scenario import from_tables
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.checks import check_attacks, check_kept
from fedpriv.simulations.judging.conditions import informed_of
from fedpriv.state import state_of


@pytest.fixture(scope="module")
def series():
    """Two rounds of three clients, and six candidates; client 1 misses the second round."""
    stream = generator(0, "series")
    model = mlp(channels=1, size=4, classes=3)
    sent = state_of(model)
    seen = []
    for number in (1, 2):
        for node in range(3):
            if (number, node) == (2, 1):
                continue
            moved = {k: v + 0.1 * torch.randn(v.shape, generator=stream) for k, v in sent.items()}
            seen.append(
                Observation(
                    sent=sent,
                    received=moved,
                    classes=3,
                    input_shape=(1, 4, 4),
                    lr=0.1,
                    round=number,
                    node=node,
                ).on(model)
            )
    x = torch.randn(6, 1, 4, 4, generator=stream)
    y = torch.randint(3, (6,), generator=stream)
    return Series(tuple(seen)), Candidates(x=x, y=y, suspect=torch.arange(6) % 3)


def test_gradient_signals_equal_a_loop_over_samples(series):
    seen, about = series
    products, squares, sizes = seen.products(about), seen.squares(about), seen.sizes()
    for r, k, one in seen.places():
        one.model.load_state_dict(one.sent)
        for m in range(len(about)):
            own = gradient_of(one.model.eval(), about.x[m : m + 1], about.y[m : m + 1])
            dot = -sum(float((own[key] * one.delta[key]).sum()) for key in own)
            size = sum(float(value.square().sum()) for value in own.values())
            update = sum(float(value.square().sum()) for value in one.delta.values())
            assert float(products[r, k, m]) == pytest.approx(dot, rel=1e-3, abs=1e-5)
            assert float(squares[r, k, m]) == pytest.approx(size, rel=1e-3)
            angle = cosine(products, squares, sizes)[r, k, m]
            assert float(angle) == pytest.approx(dot / (size * update) ** 0.5, rel=1e-3, abs=1e-5)
    assert products[1, 1].isnan().all()


def test_gradients_over_shared_entries_equal_a_loop(series):
    seen, about = series
    pruned = []
    for _, _, one in seen.places():
        kept = {k: v.where(v.abs() > 0.1, 0) for k, v in one.delta.items()}
        received = {k: one.sent[k] + kept[k] for k in one.sent}
        pruned.append(replace(one, received=received))
    few = Series(tuple(pruned))
    found = few.shared_squares(about)
    for r, k, one in few.places():
        one.model.load_state_dict(one.sent)
        for m in range(len(about)):
            own = gradient_of(one.model.eval(), about.x[m : m + 1], about.y[m : m + 1])
            size = sum(float(own[key][one.delta[key] != 0].square().sum()) for key in own)
            assert float(found[r, k, m]) == pytest.approx(size, rel=1e-3, abs=1e-7)


def test_losses_and_owners_of_a_series(series):
    seen, about = series
    own = seen.own_losses(about)
    for r, k, one in seen.places():
        torch.testing.assert_close(own[r, k], losses(seen.model, one.received, about.x, about.y))
    assert fits_best(-own).shape == (6,)


@pytest.mark.parametrize("candidates", [40, 6])
def test_the_owner_is_whose_values_stand_out_by_a_loop(candidates):
    signal = torch.randn(3, 4, candidates, generator=generator(1, "owners")).double()
    signal[1, 2] = torch.nan  # a client that was away
    guesses = fits_best(signal)
    for m in range(candidates):
        totals = []
        for k in range(4):
            found_values = []
            for r in (r for r in range(3) if signal[r, k].isfinite().all()):
                usual = signal[r, k] if candidates == 40 else signal[r, :, m]
                usual = usual[usual.isfinite()]
                found_values.append((signal[r, k, m] - usual.mean()) / usual.std(correction=0))
            totals.append(sum(found_values) / len(found_values))
        assert int(guesses[m]) == max(range(4), key=lambda k: totals[k])


def test_a_client_that_fits_everything_better_is_not_everybodys_owner():
    stream = generator(2, "owners")
    signal, owner = torch.randn(5, 4, 400, generator=stream), torch.arange(400) % 4
    signal[:, owner, torch.arange(400)] += 1.0
    signal[:, 3] += 5.0
    guesses = fits_best(signal)
    assert (guesses == owner).float().mean() > 0.6
    assert torch.bincount(guesses, minlength=4).max() < 150
    even = torch.bincount(fits_best(torch.zeros(2, 4, 400)), minlength=4)  # ties are drawn
    assert even.min() > 60


def test_others_are_the_out_world():
    signal = torch.randn(4, 5, 7, generator=generator(0, "signal")).double()
    suspect = torch.arange(7) % 5
    found_scores = against_others(signal, suspect)
    for m in range(7):
        total = 0.0
        for r in range(4):
            others = torch.cat([signal[r, : suspect[m], m], signal[r, suspect[m] + 1 :, m]])
            z = (signal[r, suspect[m], m] - others.mean()) / others.std(correction=0)
            total += float(torch.special.ndtr(z))
        assert float(found_scores[m]) == pytest.approx(total / 4)


def test_difference_and_confidence_by_hand():
    g, d = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5])
    step = torch.tensor(0.1)
    by_hand = d.square().sum() - (d - step * g).square().sum()
    torch.testing.assert_close(difference(g @ d, g.square().sum(), step), by_hand)
    p = torch.tensor([0.25, 0.9])
    torch.testing.assert_close(confidence(-p.log()), torch.logit(p))


def test_false_alarms_give_the_auc_by_its_definition():
    members, others = torch.tensor([3.0, 1.0]), torch.tensor([2.0, 1.0])
    alarms = false_alarms(members, others)
    assert float(rank(alarms, members).mean()) == (1 + 1 + 0 + 0.5) / 4
    assert rate(alarms, members).tolist() == [0.0, 1.0]
    assert found(alarms, members).tolist() == [1.0, 0.0]
    with pytest.raises(BadInput, match="members and held-out"):
        false_alarms(members, others[:0])


def test_shuffled_membership_is_chance():
    scores = torch.randn(2000, generator=generator(1, "scores"))
    order = torch.randperm(2000, generator=generator(2, "order"))
    alarms = false_alarms(scores[order[:1000]], scores[order[1000:]])
    found_out = exposure(alarms[:, 1].tolist(), rank(alarms, scores).tolist(), 1000)
    assert abs(found_out.auc - 0.5) < 6 * auc_error(0.5, 1000, 1000)
    assert found_out.found_low <= 0.02 <= 1


def test_all_labels_in_another_order_are_all_recovered():
    assert overlap(torch.tensor([1, 0, 2, 0]), torch.tensor([0, 1, 0, 2])).mean() == 1
    assert overlap(torch.tensor([1, 1, 1, 1]), torch.tensor([0, 1, 0, 2])).mean() == 0.25


def test_a_mixture_of_classes_is_taken_apart():
    classes = torch.randn(3, 20, generator=generator(0, "classes"))
    shares = torch.tensor([0.7, 0.0, 0.3])
    torch.testing.assert_close(mixture(5 * shares @ classes, classes), shares)


def test_numbers_alone_do_not_judge_pictures():
    tables = {"keep-truth": "numbers", "data": {"name": "synthetic"}}
    check_kept(Attack(name="member-loss"), from_tables(tables))
    with pytest.raises(BadScenario, match="keeps no samples, and .* 'dlg'"):
        check_attacks(from_tables(tables), [Attack(name="dlg")])


def test_no_verdict_rests_on_class_shares_by_default():
    assert METRICS.build("class-share-error").bound is None


def test_an_audit_of_single_rounds_leaves_series_of_rounds_out():
    noisy = from_tables({"plugins": [{"name": "noise", "scale": 0.1}]})
    assert informed_of(noisy) == ["noise-aware"]


def test_a_class_is_there_from_one_percent_on_in_guess_and_truth():
    truth = torch.tensor([[0.5, 0.485, 0.01, 0.005, 0.0]])
    assert presence(truth, truth).item() == 1.0  # who knows the shares is right about all classes
    blind = torch.full((1, 5), 0.2)
    assert presence(blind, truth).item() == pytest.approx(0.6)
    missed = torch.tensor([[0.5, 0.495, 0.005, 0.0, 0.0]])
    assert presence(missed, truth).item() == pytest.approx(0.8)
