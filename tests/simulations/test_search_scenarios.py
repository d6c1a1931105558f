"""The scenarios of ATS's tables, in both profiles, name things that exist."""

import pytest

from fedpriv.scenario import builtin, read
from fedpriv.simulations.sweep.cells import cells_of, victims_of
from fedpriv.simulations.sweep.sweep import check

NAMES = [name for name in builtin() if name.startswith("ats-")]


@pytest.mark.parametrize("profile", ["small", "paper"])
@pytest.mark.parametrize("name", NAMES)
def test_every_table_can_be_swept(name, profile):
    scenario = read(name, profile=profile)
    check(scenario)
    cells = cells_of(scenario)
    for cell in cells:
        if cell.attack == "policy-aware":
            assert cell.informed and cell.options["policy"]
        plugins = victims_of(cell.setting, scenario.sweep, cell.batch).plugins
        assert ("policy-aware" in cell.setting.informed) == any(
            p.name == "augment" for p in plugins
        )
        assert victims_of(cell.setting, scenario.sweep, cell.batch).training.mode == "eval"
    assert {cell.attack for cell in cells} >= {"adam+cosine", "policy-aware"}


def test_the_informed_attacker_is_told_the_policy_of_the_setting():
    told = {
        cell.setting.name: cell.options["policy"]
        for cell in cells_of(read("ats-table1"))
        if cell.attack == "policy-aware"
    }
    assert told["searched-3-1-7-s0"] == "3-1-7"
    assert told["hybrid-s0"] == "3-1-7+43-18-18"
    assert len({told[f"random-{seed}-s0"] for seed in range(10)}) == 10
