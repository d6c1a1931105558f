"""The scenarios of ATS's tables, in both profiles, name things that exist."""

from dataclasses import replace

import pytest

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.policies.informed import Branch, branches
from fedpriv.policies.policy import Policy
from fedpriv.scenario import Scenario, builtin, from_tables, read
from fedpriv.simulations.judging.conditions import given_to
from fedpriv.simulations.sweep.cells import cells_of, exposed_scenario
from fedpriv.simulations.sweep.sweep import checked

NAMES = [name for name in builtin() if name.startswith("ats-")]


def policy_told(cell, exposed):
    """The policy that an attack of a cell is given, by its own options or by the scenario."""
    given = given_to(cell.attack.name, exposed, None).options
    return {**given, **cell.attack.options}["policy"]


@pytest.fixture
def no_data(monkeypatch):
    """The papers' data are not here: everything is checked but the data and what they fit."""
    for name in ("shares_of", "check_model"):
        monkeypatch.setattr(f"fedpriv.simulations.checks.{name}", lambda scenario: None)


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("profile", ["small", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_every_table_can_be_swept(name, profile):
    scenario = read(name, profile=profile)
    cells = checked(scenario).cells
    for cell in cells:
        exposed = exposed_scenario(cell.setting, scenario.sweep, cell.batch)
        if cell.attack.name == "policy-aware":
            assert cell.knows == "augment" and policy_told(cell, exposed)
        assert ("policy-aware" in cell.setting.informed) == any(
            plugin.name == "augment" for plugin in exposed.plugins
        )
        assert exposed.training.mode == "eval"
    assert {cell.attack.name for cell in cells} >= {"adam+cosine", "policy-aware"}


def test_the_informed_attacker_is_told_the_policy_of_the_setting():
    scenario = read("ats-table1")
    told = {
        cell.setting.name: policy_told(
            cell, exposed_scenario(cell.setting, scenario.sweep, cell.batch)
        )
        for cell in cells_of(scenario)
        if cell.attack.name == "policy-aware"
    }
    assert told["searched-3-1-7-s0"] == "3-1-7"
    assert told["hybrid-s0"] == "3-1-7+43-18-18"
    assert len({told[f"random-{seed}-s0"] for seed in range(10)}) == 10


def test_the_informed_attacker_knows_that_nothing_may_have_happened():
    """Every outcome of the client's policy is among those that the attack searches through."""
    options = {"policy": "3-1-7", "probability": 0.5, "enhancement": 0.9}
    plain = {**Scenario().plain(), "plugins": [{"name": "augment", **options}]}
    given = given_to("policy-aware", from_tables(plain), None).options
    known = ATTACKS.build("policy-aware", given).known()
    assert known == replace(Policy.parse("3-1-7"), probability=0.5, enhancement=0.9)
    outcomes = branches(known)
    assert len(outcomes) == 27  # each of three signed transformations: one way, the other, not
    assert Branch((), (), 0.9) in outcomes
    assert all(branch.enhancement == 0.9 for branch in outcomes)
