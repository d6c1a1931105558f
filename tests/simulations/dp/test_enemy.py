"""Mechanisms that were made to be called "not refuted"."""

import numpy as np
import pytest
from dp_enemy import ENEMY, TOO_HIGH
from dp_sly import HIDDEN, SLY

from fedpriv.simulations.dp.examine import examined
from fedpriv.simulations.dp.findings import NOT_REFUTED, REFUTED, UNDECIDED, Claim
from fedpriv.simulations.dp.targets import CallableTarget, target_of

DELTA = 1e-5


@pytest.mark.parametrize("fault", ENEMY, ids=lambda fault: fault.name)
def test_failures_and_late_rounds_are_part_of_what_is_seen(fault):
    np.random.seed(21)
    result = examined(target_of(fault.target, {}), fault.claim, clip=1.0, draws=800)
    assert result.answer == REFUTED, result.sentence


@pytest.mark.parametrize("target", TOO_HIGH)
def test_little_noise_that_is_not_gaussian_is_not_called_not_refuted(target):
    """Its ε is above 100, and 800 draws cannot prove 10 by counting."""
    np.random.seed(22)
    high, low = (
        examined(target_of(target, {}), Claim(epsilon, DELTA), clip=1.0, draws=800)
        for epsilon in (10.0, 3.0)
    )
    assert high.answer == UNDECIDED and high.exit_code == 4
    assert "--draws" in high.sentence
    assert low.answer == REFUTED


@pytest.mark.parametrize("fault", SLY, ids=lambda fault: fault.name)
def test_the_form_and_the_bits_of_a_message_are_part_of_what_is_seen(fault):
    """The numbers hold ε = 4, and only what is around them does not."""
    np.random.seed(24)
    result = examined(target_of(fault.target, {}), fault.claim, clip=1.0, draws=2000)
    assert result.answer == REFUTED, result.sentence
    assert result.without_assumption > fault.epsilon


def test_the_rounding_of_plain_floating_point_noise_is_no_hidden_bit():
    """By all last bits together, Gaussian noise by the book was "at least 6.1" at ε = 4."""
    np.random.seed(2026)
    gaussian = target_of("gaussian", {"noise-multiplier": 1.0811618495202397})
    result = examined(gaussian, Claim(4.0, DELTA), clip=1.0, draws=50_000)
    assert result.answer == NOT_REFUTED and result.at_least > 3.7


@pytest.mark.parametrize("target", HIDDEN)
def test_what_nobody_looks_for_is_not_found(target):
    """docs/howto/verify-dp.md says so; who finds a way may take these into the list of faults."""
    np.random.seed(25)
    result = examined(target_of(target, {}), Claim(4.0, DELTA), clip=1.0, draws=2000)
    assert result.answer == NOT_REFUTED


def test_a_mechanism_that_always_fails_is_undecided():
    def broken(update):
        raise ValueError("never")

    result = examined(CallableTarget(broken, "broken"), Claim(1.0, DELTA), clip=1.0, draws=100)
    assert result.answer == UNDECIDED and "no test could be made" in result.sentence


def test_what_is_declared_public_is_named_in_the_answer():
    np.random.seed(23)

    def counted(update):
        size = float(sum(np.abs(value).sum() for value in update.values()))
        return {"weight": 100 * np.random.standard_normal(4), "size": size}

    target = CallableTarget(counted, "counted")
    seen = examined(target, Claim(4.0, DELTA), clip=1.0, draws=1000)
    hidden = examined(target, Claim(4.0, DELTA), clip=1.0, draws=1000, public=["size"])
    assert seen.answer == REFUTED and hidden.answer == NOT_REFUTED
    assert "Declared public and not looked at: size" in hidden.sentence
    assert hidden.plain()["declared-public"] == ["size"]
