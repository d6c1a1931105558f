"""Faults that nobody tuned the verifier on are refuted, by bounds and not by what it saw alone."""

import math

import numpy as np
import pytest
from dp_after import AFTER
from dp_fresh import FRESH
from dp_held_out import HELD_OUT
from dp_sound import SOUND

from fedpriv.simulations.dp.examine import examined
from fedpriv.simulations.dp.findings import FALSE_REFUTATION, REFUTED, UNDECIDED, Claim
from fedpriv.simulations.dp.targets import CallableTarget, target_of

# Most faults show in few draws; the documented figures are of 20,000 (benchmarks/verify_dp.py).
DRAWS, ALL = 6_000, 20_000
SMALL = {  # what is seldom wrong, or wrong by little, needs all of them
    "noise left out in 5 %",
    "noise from a short seed",
    "an eighth of the noise missing",
    "a share of the noise missing",
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", (*HELD_OUT, *FRESH, *AFTER), ids=lambda fault: fault.name)
def test_a_held_out_fault_is_refuted(fault):
    np.random.seed(11)
    draws = ALL if fault.name in SMALL else DRAWS
    result = examined(target_of(fault.target, {}), fault.claim, clip=1.0, draws=draws)
    assert result.answer == REFUTED, result.sentence
    assert fault.epsilon < result.best.epsilon


def answered(epsilon):
    """Randomised response about whether there was an update: pure ε-DP, and sound."""
    stay = 1 / (1 + math.exp(-epsilon))

    def respond(update):
        truth = any(np.abs(value).max() > 0.1 for value in update.values())
        return {"answer": np.asarray(float(truth == (np.random.random() < stay)))}

    return CallableTarget(respond, "randomised response")


@pytest.mark.parametrize("epsilon", [3.0, 5.0, 7.0])
def test_sound_randomised_response_is_not_refuted(epsilon):
    """Few answers are false, so that the answer looks as if it had no noise at all."""
    np.random.seed(12)
    for _ in range(5):
        result = examined(answered(epsilon), Claim(epsilon, 1e-5), clip=1.0, draws=300)
        assert result.answer != REFUTED, result.sentence
        assert result.at_least <= epsilon


def test_a_part_without_noise_is_refuted_with_enough_draws_and_undecided_with_few():
    np.random.seed(13)
    bare = CallableTarget(lambda update: {"bit": np.sign(update["weight"]).sum()}, "bare")
    entry = CallableTarget(lambda update: {"bit": np.abs(update["weight"]).max() > 0}, "bare")
    for target in (bare, entry):
        few = examined(target, Claim(8.0, 1e-5), clip=1.0, draws=300)
        assert few.answer == UNDECIDED and few.exit_code == 4
        assert "has no noise" in few.sentence and "--draws" in few.sentence
        # n draws without one error bound each error rate by ln(2 / level) / n.
        most = math.log(300 / math.log(2 * few.tests / FALSE_REFUTATION))
        assert 0 < few.at_least <= most
        many = examined(target, Claim(3.0, 1e-5), clip=1.0, draws=3000)
        assert many.answer == REFUTED and many.exit_code == 1


def test_text_and_parts_that_come_and_go_are_looked_at():
    np.random.seed(14)

    def told(update):
        size = max(np.abs(value).max() for value in update.values())
        noise = {"weight": np.random.standard_normal(4)}
        return noise | ({"status": "moved"} if size > 0 else {})

    def named(update):
        size = max(np.abs(value).max() for value in update.values())
        return {"weight": np.random.standard_normal(4), "status": "moved" if size else "still"}

    for function in (told, named):
        target = CallableTarget(function, "text")
        result = examined(target, Claim(3.0, 1e-5), clip=1.0, draws=3000)
        assert result.answer == REFUTED, result.sentence


@pytest.mark.parametrize("name", SOUND)
def test_what_is_done_to_noisy_values_alone_is_not_refuted(name):
    np.random.seed(15)
    result = examined(target_of(SOUND[name], {}), Claim(4.0, 1e-5), clip=1.0, draws=2000)
    assert result.answer != REFUTED and result.at_least <= 4.0, result.sentence


@pytest.mark.parametrize("name", ["largest of the sum", "largest of all layers, replaced"])
def test_places_that_follow_from_the_clean_update_are_refuted(name):
    np.random.seed(16)
    fault = next(one for one in FRESH if one.name == name)
    result = examined(target_of(fault.target, {}), fault.claim, clip=1.0, draws=3000)
    assert result.answer == REFUTED and result.without_assumption > 4.0, result.sentence
