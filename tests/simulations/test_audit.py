"""An audit fails what leaks, passes what does not, names a defence, and keeps to its time."""

import json

import pytest

from fedpriv.clients.catalogue import calibrated
from fedpriv.errors import BadOption
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.api import load
from fedpriv.simulations.audit import audit
from fedpriv.simulations.audit.battery import Cell, cells, methods_on, milestones
from fedpriv.simulations.audit.ladder import Tried, candidates, cheapest
from fedpriv.simulations.audit.probe import Pace, cell_scenario
from fedpriv.simulations.federation.exposure import Starts

SMALL = {
    "name": "small",
    "seed": 3,
    "data": {"name": "synthetic"},
    "model": {"name": "mlp"},
    "training": {"lr": 0.1, "batch-size": 8},
    "federation": {"clients": 4, "rounds": 3, "backend": "inline"},
}


def test_the_battery_is_early_middle_and_late(tiny):
    assert milestones(1) == (1,)
    assert milestones(2) == (1, 2)
    assert milestones(9) == (1, 5, 9)
    found = cells(tiny, (1, 5, 9))
    assert found[:4] == [Cell(1, 1), Cell(9, 1), Cell(5, 1), Cell(1, None)]
    assert len(found) == 12


def test_the_own_batch_is_not_tried_twice():
    scenario = from_tables({**SMALL, "training": {"batch-size": 4, "local-steps": 1}})
    assert {cell.batch for cell in cells(scenario, (1,))} == {1, 4, 8}


def test_who_knows_a_plugin_attacks_it_too():
    def labels(plugins, batch):
        scenario = from_tables({**SMALL, "plugins": plugins})
        return [method.label for method in methods_on(scenario, Cell(1, batch))]

    pruning = [{"name": "pruning", "fraction": 0.1}]
    assert labels(pruning, 1) == ["quick", "thorough", "pruning-aware"]
    assert labels([], 8) == ["quick"]
    noises = [{"name": "noise", "scale": 0.1}, {"name": "dp", "noise-multiplier": 1.0}]
    assert labels(noises, 8) == ["quick", "noise-aware"]


def test_a_cell_differs_from_training_in_batch_and_steps_alone(tiny):
    chosen = cell_scenario(tiny, Cell(3, 4), methods_on(tiny, Cell(3, 4)))
    assert (chosen.training.batch_size, chosen.training.local_steps) == (4, 1)
    assert chosen.training.lr == tiny.training.lr and chosen.federation.rounds == 3
    own = cell_scenario(tiny, Cell(3, None), ())
    assert own.training == tiny.training and own.keeps_truth


def test_the_noise_of_a_cell_is_that_of_training():
    strong = from_tables({**SMALL, "plugins": [{"name": "dp", "epsilon": 1.0}]})
    weak = from_tables({**SMALL, "plugins": [{"name": "dp", "epsilon": 50.0}]})
    noises = [calibrated(s.plugins[0], s)["noise-multiplier"] for s in (strong, weak)]
    assert noises[0] > noises[1] > 0
    assert "epsilon" not in calibrated(strong.plugins[0], strong)
    [inside] = cell_scenario(strong, Cell(1, 1), ()).plugins
    assert inside.options["noise-multiplier"] == noises[0] and "epsilon" not in inside.options


def test_the_pace_says_how_many_fit():
    pace = Pace()
    assert pace.victims("quick", 1, 0.0, 10) == 2  # nothing is known yet
    pace.note("quick", 2, 1, 4.0)
    assert pace.victims("quick", 1, 9.0, 10) == 4
    assert pace.victims("quick", 8, 9.0, 10) == 0
    assert pace.victims("quick", 1, 900.0, 10) == 10


def test_the_cheapest_keeps_most_accuracy():
    falls = Tried("a", "a", 30.0, False, accuracy=0.99)
    strong = Tried("b", "b", 5.0, True, accuracy=0.7)
    mild = Tried("c", "c", 15.0, True, accuracy=0.9)
    unknown = Tried("d", "d", 5.0, True)
    assert cheapest([falls, strong, mild, unknown]) == mild
    assert cheapest([falls, unknown]) == unknown
    assert cheapest([falls]) is None


def test_a_scenario_names_its_own_candidates():
    own = {"name": "mine", "plugins": [{"name": "clip", "norm": 1.0}]}
    found = candidates(from_tables({**SMALL, "defences": [own]}))
    assert [(name, s.plugins[0].name) for name, s in found] == [("mine", "clip")]
    assert len(candidates(from_tables(SMALL))) > 3


def test_what_cannot_be_audited_is_said(tmp_path):
    codes = from_tables({**SMALL, "federation": {"strategy": "representation"}})
    with pytest.raises(BadOption, match="representation"):
        audit(codes, RunFolder(tmp_path / "a"))
    with pytest.raises(BadOption, match="--minutes"):
        audit(from_tables(SMALL), RunFolder(tmp_path / "a"), minutes=0)
    assert Starts(tmp_path).rounds() == [1]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_undefended_federation_fails_and_a_defended_one_passes(tmp_path, monkeypatch):
    """With time enough nothing here depends on speed: two clients, one round, one candidate."""
    noise = {"name": "noise", "scale": 10.0}
    bare = {
        **SMALL,
        "training": {"lr": 0.1, "batch-size": 4, "local-steps": 1},
        "federation": {"clients": 2, "rounds": 1, "backend": "inline"},
        "defences": [{"name": "loud", "plugins": [noise]}],
    }
    found = audit(from_tables(bare), RunFolder(tmp_path / "bare"), minutes=60)
    assert not found["passed"] and found["crossed"] > 0
    assert found["clients"]["0"]["leaks"] and found["left-out"] == []
    [loud] = found["defences"]
    assert found["cheapest"] == "loud" and loud["accuracy"] is not None and loud["attacked"] > 0
    assert json.loads((tmp_path / "bare" / "verdict.json").read_text())["gates"] == ["psnr>20"]
    result = load(tmp_path / "bare")
    assert result.verdict.light == "red"
    page = result.report.read_text("utf-8")
    assert "The gate psnr&gt;20 was crossed by" in page
    assert "The cheapest defence that passes is noise(scale=10.0)" in page

    # The search for a defence has used an attack that knows noise above.
    monkeypatch.setattr("fedpriv.simulations.audit.battery.informed_of", lambda *_: [])
    noisy = {**bare, "plugins": [noise], "federation": {**bare["federation"], "backend": "ray"}}
    found = audit(from_tables(noisy), RunFolder(tmp_path / "noisy"), minutes=60)
    assert found["passed"] and found["defences"] == []
    result = load(tmp_path / "noisy")
    assert result.verdict.light in ("green", "amber")
    assert result.runs[0].scenario.federation.backend == "inline"  # which can end in time
