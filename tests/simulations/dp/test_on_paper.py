"""ε on paper: accountants agree, and the mistake behind a claim is named."""

import math
from dataclasses import replace

import pytest

from fedpriv.errors import BadInput, BadOption
from fedpriv.simulations.dp.accounting import Account, exact, prv, rdp, zcdp
from fedpriv.simulations.dp.bounds import gaussian_epsilon
from fedpriv.simulations.dp.checks import paper_checked
from fedpriv.simulations.dp.findings import NOT_REFUTED, REFUTED, UNDECIDED, Claim
from fedpriv.simulations.dp.on_paper import checked

SGD = {"noise": 1.0, "rate": 0.01, "steps": 1000, "sampling": "poisson"}


def test_accountants_agree_on_dp_sgd():
    account = Account(**SGD)
    low, high = exact(account)
    assert low <= high == pytest.approx(1.828, abs=1e-3)
    assert prv(account) == pytest.approx(high, abs=0.02)
    assert high < rdp(account) < 1.2 * high


def test_one_release_is_the_gaussian_mechanism():
    noise = math.sqrt(2 * math.log(1.25e5)) / 10
    assert exact(Account(noise=noise))[0] == pytest.approx(10.39, abs=0.01)
    assert exact(Account(noise=noise, neighbours="replace"))[0] == pytest.approx(25.4, abs=0.1)
    assert exact(Account(noise=noise, rounds=20))[0] == pytest.approx(81.1, abs=0.1)
    assert zcdp(Account(noise=noise)) > exact(Account(noise=noise))[0]


@pytest.mark.parametrize(
    "epsilon, facts, more, words",
    [
        (10.39, {"noise": 0.48448, "rounds": 20}, {}, "one round"),
        (10.39, {"noise": 0.48448, "neighbours": "replace"}, {}, "replacing"),
        (1.83, SGD | {"sampling": "fixed"}, {}, "Poisson"),
        (10.0, {"noise": 0.48448e-4}, {"sensitivity": 1e-4}, "sensitivity"),
        (0.38, SGD, {"epochs": 10}, "epochs"),
        (1.83, SGD | {"runs": 20}, {}, "20 runs"),
    ],
)
def test_the_mistake_behind_a_claim_is_named(epsilon, facts, more, words):
    verdict = checked(Claim(epsilon, 1e-5), Account(**facts), **more)
    assert verdict.answer == (UNDECIDED if "runs" in facts else REFUTED)
    assert words in " ".join(verdict.explained)


def test_a_true_claim_is_not_refuted():
    verdict = checked(Claim(1.83, 1e-5), Account(**SGD))
    assert verdict.answer == NOT_REFUTED and verdict.exit_code == 0 and not verdict.explained


@pytest.mark.parametrize("sampling, rate", [("none", 1.0), ("poisson", 0.2)])
def test_evaluations_lie_between_the_larger_part_and_both_together(sampling, rate):
    """All of it is Gaussian, so that PLD, RDP and PRV can be compared with a closed form."""
    trained = Account(noise=2.0, rate=rate, steps=4, sampling=sampling)
    both = replace(trained, evaluations=9, evaluation_noise=6.0)  # μ = 3 / 6
    low, high = exact(both)
    alone = gaussian_epsilon(0.5, 1e-5)
    assert low == pytest.approx(max(exact(trained)[0], alone), rel=1e-6)
    assert max(exact(trained)[1], alone) < high < exact(trained)[1] + alone
    if rate == 1:
        assert high == pytest.approx(gaussian_epsilon(math.hypot(1.0, 0.5), 1e-5))
    assert prv(both) == pytest.approx(high, abs=0.02)
    assert high < rdp(both) < 1.3 * high


def test_a_claim_that_leaves_out_evaluations_is_named():
    account = Account(noise=4.0, evaluations=9, evaluation_noise=1.0)
    verdict = checked(Claim(exact(replace(account, evaluations=0))[0], 1e-5), account)
    assert verdict.answer == REFUTED and "evaluations" in " ".join(verdict.explained)


def test_a_claim_without_numbers_is_bad_input():
    with pytest.raises(BadInput):
        paper_checked(1.0, None, None, None, "sample", {"clip": 1.0})
    with pytest.raises(BadOption):
        Account(noise=1.0, rate=2.0)
