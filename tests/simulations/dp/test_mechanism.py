"""Seeded faults are refuted or named, sound mechanisms are not, and every answer has its words."""

import dp_accounting
import numpy as np
import pytest
from dp_seeded import FAULTS

from fedpriv.errors import BadOption
from fedpriv.simulations.dp.accounting import Account
from fedpriv.simulations.dp.checks import mechanism_checked
from fedpriv.simulations.dp.examine import examined
from fedpriv.simulations.dp.findings import NOT_REFUTED, REFUTED, UNDECIDED, Claim
from fedpriv.simulations.dp.on_paper import checked
from fedpriv.simulations.dp.targets import target_of

DELTA = 1e-5
DEFAULTS = ["clipping_norm=1.0", "sensitivity=1e-4", "epsilon=10.0", "delta=1e-5"]
MOD = "flwr.clientapp.mod:LocalDpMod"


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.target], ids=lambda f: f.name)
def test_a_seeded_fault_is_refuted(fault):
    np.random.seed(0)
    target = target_of(fault.target, {}, fault.unit)
    result = examined(target, fault.claim, clip=1.0, draws=1500)
    assert result.answer == REFUTED, result.sentence
    assert result.exit_code == 1
    assert "refuted: ε is at least" in result.sentence and "confidence 99.9%" in result.sentence


@pytest.mark.parametrize("fault", [f for f in FAULTS if not f.target], ids=lambda f: f.name)
def test_a_seeded_fault_on_paper_is_named(fault):
    verdict = checked(fault.claim, Account(**fault.account))
    assert verdict.answer in (REFUTED, UNDECIDED)
    assert len(verdict.explained) == 1


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 10.0])
def test_the_bound_of_a_gaussian_is_tight_and_not_above(epsilon):
    np.random.seed(3)
    noise = dp_accounting.get_sigma_gaussian(epsilon, DELTA)
    target = target_of("gaussian", {"noise-multiplier": noise})
    result = examined(target, Claim(epsilon, DELTA), clip=1.0, draws=600_000)
    assert 0.95 * epsilon <= result.at_least <= epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_laplace_noise_is_not_judged_by_the_gaussian_bound(epsilon):
    np.random.seed(4)
    target = target_of("laplace", {"epsilon": epsilon})
    result = examined(target, Claim(epsilon, DELTA), clip=1.0, draws=20_000)
    assert result.answer == NOT_REFUTED and result.exit_code == 0
    assert {bound.assumes for bound in result.bounds} == {"nothing"}
    assert any("not normal" in line for line in result.left_out)
    assert result.at_least > 0.7 * epsilon - 0.1


def test_half_of_the_noise_is_refuted_and_all_of_it_is_not():
    np.random.seed(5)
    noise = dp_accounting.get_sigma_gaussian(2.0, DELTA)
    for factor, answer in ((0.5, REFUTED), (1.0, NOT_REFUTED)):
        target = target_of("gaussian", {"noise-multiplier": factor * noise})
        assert examined(target, Claim(2.0, DELTA), clip=1.0, draws=5000).answer == answer


def test_defaults_with_a_tiny_sensitivity_are_refuted():
    result = mechanism_checked(MOD, DEFAULTS, (10.0, DELTA, "client", "add-remove"), draws=400)
    assert result.best is not None and result.best.epsilon > 1e8
    causes = [finding.cause for finding in result.findings]
    assert "an update of zeros makes it fail" in causes
    assert "'num-examples' has no noise" in causes


def test_a_part_that_is_declared_public_is_not_held_against_a_mechanism():
    settings = [s for s in DEFAULTS if "sensitivity" not in s] + ["sensitivity=1.0"]
    result = mechanism_checked(
        MOD,
        settings,
        (10.4, DELTA, "client", "add-remove"),
        public=["num-examples", "num_batches_tracked"],
        draws=400,
        seed=0,
    )
    assert result.answer == NOT_REFUTED


@pytest.mark.parametrize(
    "name",
    [
        "DifferentialPrivacyServerSideFixedClipping",
        "DifferentialPrivacyClientSideFixedClipping",
    ],
)
def test_flowers_fixed_clipping_holds_its_epsilon(name):
    np.random.seed(6)
    noise = dp_accounting.get_sigma_gaussian(4.0, DELTA)
    options = {"noise-multiplier": noise, "clipping-norm": 1.0}
    target = target_of(f"flwr.serverapp.strategy:{name}", options)
    result = examined(target, Claim(4.0, DELTA), clip=1.0, draws=400)
    assert result.answer == NOT_REFUTED and result.at_least > 1.0


def test_a_strategy_with_half_of_the_noise_is_refuted():
    np.random.seed(7)
    noise = dp_accounting.get_sigma_gaussian(4.0, DELTA) / 2
    options = {"noise-multiplier": noise, "clipping-norm": 1.0}
    name = "flwr.serverapp.strategy:DifferentialPrivacyServerSideFixedClipping"
    result = examined(target_of(name, options), Claim(4.0, DELTA), clip=1.0, draws=400)
    assert result.answer == REFUTED


def test_our_dp_does_not_tell_two_samples_apart():
    """The noise comes from the system, so the claim of 40 is far above the ε of 9.1."""
    noise = dp_accounting.get_sigma_gaussian(4.0, DELTA)
    target = target_of("dp", {"noise-multiplier": noise}, "sample")
    result = examined(target, Claim(40.0, DELTA, "sample", "replace"), clip=1.0, draws=100)
    assert result.answer == NOT_REFUTED and result.bounds


@pytest.mark.parametrize(
    "name, settings, claimed",
    [
        ("gausian", [], (1.0, DELTA, "client", "add-remove")),
        ("gaussian", ["noise-multiplier=-1.0"], (1.0, DELTA, "client", "add-remove")),
        ("gaussian", ["noise-multiplier=1.0"], (-1.0, DELTA, "client", "add-remove")),
        ("gaussian", ["noise-multiplier=1.0"], (1.0, 2.0, "client", "add-remove")),
        ("math:pi", [], (1.0, DELTA, "client", "add-remove")),
        (MOD, ["clipping_norm=0.0", *DEFAULTS[1:]], (1.0, DELTA, "client", "add-remove")),
    ],
)
def test_bad_input_is_one_error(name, settings, claimed):
    with pytest.raises(BadOption):
        mechanism_checked(name, settings, claimed, draws=100)
