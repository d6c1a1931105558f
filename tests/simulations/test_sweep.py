"""Sweeps: which cells there are, what is trained once, what happens to a cell that fails."""

import json
import warnings

import pandas as pd
import pytest

from fedpriv.errors import BadData, BadFolder, BadOption, BadScenario, GateCrossed, Undecided
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.gates import parsed
from fedpriv.runfolder import RunFolder, load_state
from fedpriv.scenario import builtin, from_tables, read, tables_of
from fedpriv.simulations.federation.exposure import exposed
from fedpriv.simulations.sweep.cells import (
    cells_of,
    exposed_scenario,
    settings_of,
    start_of,
    training_key,
)
from fedpriv.simulations.sweep.ending import check_defended
from fedpriv.simulations.sweep.sweep import checked, complete, guarded, plan_of, rows_of, sweep
from fedpriv.simulations.sweep.training import attacked, starts_in, train
from fedpriv.sweepfolder import SweepFolder


def one_cell(folder, grid, cell):
    """The result of one cell whose setting was trained."""
    exposed = exposed_scenario(cell.setting, grid.sweep, cell.batch)
    source = folder.training(cell.setting.name)
    start = start_of(cell.setting.scenario, grid.sweep)
    [result] = attacked(folder.victims(cell.group), exposed, source, start, [cell])
    return result


def tables(**sections):
    return {
        "name": "grid",
        "data": {"name": "synthetic"},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"lr": 0.1, "batch-size": 32},
        "federation": {"clients": 2, "rounds": 2, "strategy": "round-robin"},
        "sweep": {"attacks": ["linear"], "batch-sizes": [1], "victims": 2, "at": 0.0},
        "defences": [
            {"name": "none"},
            {
                "name": "noise",
                "plugins": [{"name": "noise"}],
                "vary": "noise.scale",
                "values": [0.0, 1.0],
            },
            {"name": "spn", "plugins": [{"name": "spn"}], "vary": "spn.alpha2", "values": [0.5]},
        ],
        **sections,
    }


@pytest.fixture
def grid():
    return from_tables(tables())


def test_every_defence_value_and_seed_is_a_setting(grid):
    assert [s.name for s in settings_of(grid)] == [
        "none-s0",
        "noise-0.0-s0",
        "noise-1.0-s0",
        "spn-0.5-s0",
    ]
    two = from_tables(tables(sweep={"seeds": [0, 1], "attacks": ["linear", "dlg"]}))
    uninformed = [cell for cell in cells_of(two) if not cell.knows]
    assert len(uninformed) == 4 * 2 * 2
    assert all(len(group) >= 2 for group in plan_of(two).groups)


def test_the_value_stands_where_vary_says(grid):
    strong = settings_of(grid)[2]
    assert strong.scenario.plugins[0].options["scale"] == 1.0
    wrong = tables(
        defences=[{"name": "a", "plugins": [{"name": "spn"}], "vary": "x.y", "values": [1]}]
    )
    with pytest.raises(BadScenario, match="vary must be"):
        settings_of(from_tables(wrong))


def test_informed_attacks_join_the_others_for_their_defence_only():
    defence = {"name": "spn", "plugins": [{"name": "spn"}], "informed": ["spn-aware"]}
    cells = cells_of(from_tables(tables(defences=[{"name": "none"}, defence])))
    assert [(c.setting.defence, c.attack.name, c.knows) for c in cells] == [
        ("none", "linear", ""),
        ("spn", "linear", ""),
        ("spn", "spn-aware", "spn"),
    ]


def test_who_is_informed_of_a_defence_stands_in_the_attacks_own_row(grid):
    informed = {(c.setting.defence, c.attack.name) for c in cells_of(grid) if c.knows}
    assert {("noise", "noise-aware"), ("spn", "spn-aware")} <= informed
    assert not any(defence == "none" for defence, _ in informed)


def test_equal_federations_have_one_key():
    twice = [{"name": "a"}, {"name": "b"}, {"name": "c", "plugins": [{"name": "clip"}]}]
    keys = [training_key(s) for s in settings_of(from_tables(tables(defences=twice)))]
    assert keys[0] == keys[1] != keys[2]


def test_a_victim_shares_the_gradient_of_one_batch(grid):
    scenario = exposed_scenario(settings_of(grid)[3], grid.sweep, 4)
    assert (scenario.training.local_steps, scenario.training.batch_size) == (1, 4)
    assert scenario.training.optimiser == "sgd" and scenario.keeps_truth
    assert scenario.plugins[0].name == "spn" and scenario.federation.rounds == 1


def test_more_victims_than_clients_are_as_many_clients_of_the_attacked_round(tmp_path):
    grid = from_tables(tables(sweep={"attacks": ["linear"], "victims": 5, "at": 1.0}))
    cell = cells_of(grid)[0]
    folder = SweepFolder(tmp_path)
    train(folder.training(cell.setting.name), cell.setting.scenario, start_of(grid, grid.sweep))
    assert one_cell(folder, grid, cell)["victims"] == 5


def test_what_is_wrong_is_found_before_anything_is_trained():
    with pytest.raises(BadScenario, match=r"no \[sweep\]"):
        checked(from_tables({"name": "plain"}))
    with pytest.raises(BadScenario, match="no \\[\\[defences\\]\\]"):
        checked(from_tables(tables(defences=[])))
    with pytest.raises(BadOption, match="No attack is named"):
        checked(from_tables(tables(sweep={"attacks": ["dgl"]})))
    order = [{"name": "dp", "noise-multiplier": 1.0}, {"name": "spn"}]
    with pytest.raises(BadOption, match="put spn first"):
        checked(from_tables(tables(defences=[{"name": "a", "plugins": order}])))


def test_a_cell_trains_is_exposed_and_attacked(grid, tmp_path):
    folder = SweepFolder(tmp_path)
    results = {}
    cells = [cell for cell in cells_of(grid) if cell.attack.name == "linear"]
    for cell in cells:
        name, scenario = cell.setting.name, cell.setting.scenario
        guarded(folder, [name], train, folder.training(name), scenario, 1)
        guarded(folder, [cell.name], one_cell, folder, grid, cell)
        results[name] = folder.cell(cell.name)
    assert results["none-s0"]["psnr"] > 25
    error = {name: result["relative-error"] for name, result in results.items()}
    assert error["noise-0.0-s0"] == error["none-s0"]
    assert error["noise-1.0-s0"] > 5 * error["none-s0"]
    assert results["noise-1.0-s0"]["m"] < results["spn-0.5-s0"]["m"]
    source = {setting.name: setting.name for setting in settings_of(grid)}
    every = rows_of(folder, cells_of(grid), source)
    rows = [row for row in every if "error" not in row]
    assert all(0 < row["accuracy"] <= 1 for row in rows) and len(rows) == 4
    assert {row["error"] for row in every if row not in rows} == {"not done yet"}
    assert all("psnr-blind" in row and row["batch"] == 1 for row in rows)


def test_a_failed_cell_says_why_and_is_tried_again(grid, tmp_path):
    folder = SweepFolder(tmp_path)
    cell = cells_of(grid)[0]

    def broken():
        raise RuntimeError("no luck")

    guarded(folder, [cell.name, "another"], broken)
    for name in (cell.name, "another"):
        result = json.loads(folder.cell_file(name).read_text())
        assert result == folder.cell(name) == {"error": "RuntimeError: no luck"}
        assert not complete(result)


def test_an_attack_that_broke_down_says_why_in_its_cell_and_spares_the_others(tmp_path):
    sweep = {"attacks": ["torch.nn:Identity", "linear"], "victims": 2, "at": 0.0}
    grid = from_tables(tables(sweep=sweep, defences=[{"name": "none"}]))
    [cells] = plan_of(grid).groups
    exposed = exposed_scenario(cells[0].setting, grid.sweep, 1)
    place = RunFolder(tmp_path / "victims")
    broken, fine = attacked(place, exposed, RunFolder(tmp_path / "training"), 1, cells)
    assert "error" in broken and fine["psnr"] > 25


def test_an_attack_on_the_trained_model_starts_from_it_with_the_clients_memory(tmp_path):
    scenario = from_tables(tables(sweep={"attacks": ["linear"], "at": 1.0}))
    setting = settings_of(scenario)[3]
    source, place = RunFolder(tmp_path / "training"), RunFolder(tmp_path / "victims")
    start = start_of(setting.scenario, scenario.sweep)
    assert start == 3
    train(source, setting.scenario, start)
    kept = starts_in(source).of(start)
    assert kept.has_checkpoint() and len(list(kept.clients.iterdir())) == 2
    exposed(exposed_scenario(setting, scenario.sweep, 1), place, starts_in(source), start)
    seen = Observation.load(place.observations / "1-0.safetensors")
    trained = load_state(source.model_file)
    assert all((seen.sent[key] == trained[key]).all() for key in trained)


def test_a_sweep_folder_is_not_started_twice(grid, tmp_path):
    folder = SweepFolder(tmp_path)
    folder.begin(grid, resume=False)
    with pytest.raises(BadFolder, match="--resume"):
        folder.begin(grid, resume=False)
    folder.begin(grid, resume=True)
    with pytest.raises(BadFolder, match="other settings"):
        folder.begin(from_tables(tables(seed=5)), resume=True)


def test_a_sweep_passes_its_gate_when_one_defended_setting_does():
    def row(defence, value, psnr):
        plugins = "none" if defence == "none" else defence
        return {"defence": defence, "value": value, "plugins": plugins, "psnr": psnr}

    gates = [parsed("psnr>20")]
    rows = [row("none", None, 40.0), row("noise", 0.1, 30.0), row("noise", 1.0, 12.0)]
    check_defended(gates, rows)
    with pytest.raises(GateCrossed, match="all 1 defended"):
        check_defended(gates, rows[:2])
    with pytest.raises(Undecided):
        check_defended(gates, rows[:1])


SPN = [name for name in builtin() if name.startswith("spn-")]
SWEEPS = [name for name in builtin() if "sweep" in tables_of(name)]


@pytest.mark.parametrize("name", SPN)
def test_every_scenario_of_the_paper_is_a_sweep_or_has_variants(name):
    profiles = tables_of(name)["profiles"]
    assert {"small", "paper"} <= profiles.keys()
    for scenario in (read(name, profile=profile) for profile in profiles):
        assert scenario.sweep is not None or scenario.variants


@pytest.mark.parametrize("name", SWEEPS)
def test_every_sweep_that_ships_can_be_built(name, monkeypatch):
    """With its data where they are. Where not, the error and a warning name them.

    Then everything is checked but the data and what must fit them.
    """
    missing = set()
    for profile in (None, *tables_of(name).get("profiles", {})):
        scenario = read(name, profile=profile)
        try:
            checked(scenario)
        except BadData as error:
            assert scenario.data.name in str(error) and "FEDPRIV_DATA" in str(error)
            missing.add(scenario.data.name)
            with monkeypatch.context() as patch:
                for part in ("shares_of", "check_model"):
                    patch.setattr(f"fedpriv.simulations.checks.{part}", lambda scenario: None)
                patch.setattr(
                    "fedpriv.simulations.sweep.sweep.why_not", lambda name, scenario, strict: None
                )
                private = "fedpriv.clients.plugins.differential_privacy.shares_of"
                patch.setattr(private, lambda scenario: [range(500)])
                checked(scenario)
    if missing:
        warnings.warn(f"{name} was checked without its data: {', '.join(missing)}", stacklevel=1)


def test_members_and_pictures_are_attacked_under_the_same_defences():
    scenario = read("membership-defences")
    trained = {one.name: one.plugins or () for one in scenario.variants if not one.set}
    assert {one.name: one.plugins for one in scenario.defences} == trained


@pytest.mark.parametrize(
    "workers", [1, pytest.param(2, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_a_sweep_ends_in_tables_and_resumes(tmp_path, workers):
    """Alone without Ray, with two workers on it."""
    scenario = from_tables(tables(defences=tables()["defences"][:2]))
    told = []
    folder = SweepFolder(tmp_path / "sweep")

    def run(resume):
        return sweep(
            scenario, folder, resume=resume, workers=workers, tell=lambda *news: told.append(news)
        )

    first = run(resume=False)
    assert told[-1][0] == told[-1][1] == 3 + 3 + 2  # trainings, and who knows the noise
    assert {row["defence"] for row in first["cap"]} == {"none", "noise"}
    results = folder.results()
    assert len(results) == 3 + 2 and not results.get("error", pd.Series(dtype=str)).notna().any()
    assert folder.ppc_picture.exists()
    folder.cell_file("noise-1.0-s0-b1-linear").unlink()
    times = folder.cell_file("none-s0").stat().st_mtime_ns
    again = run(resume=True)
    assert folder.cell_file("none-s0").stat().st_mtime_ns == times
    assert [row["relative-error"] for row in again["rows"]] == [
        row["relative-error"] for row in first["rows"]
    ]
