"""Sweeps: which cells there are, what is trained once, what happens to a cell that fails."""

import json

import pandas as pd
import pytest

from fedpriv.errors import BadFolder, BadOption, BadScenario
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import builtin, from_tables, read, tables_of
from fedpriv.simulations.sweep.cells import cells_of, settings_of, training_key, victims_of
from fedpriv.simulations.sweep.sweep import (
    SweepFolder,
    attack,
    check,
    exposed_and_attacked,
    grouped,
    guarded,
    rows_of,
    sweep,
)
from fedpriv.simulations.sweep.training import START, expose, train


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
    assert len(cells_of(two)) == 4 * 2 * 2
    assert all(len(group) == 2 for group in grouped(cells_of(two)))


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
    assert [(c.setting.defence, c.attack, c.informed) for c in cells] == [
        ("none", "linear", False),
        ("spn", "linear", False),
        ("spn", "spn-aware", True),
    ]


def test_equal_federations_have_one_key():
    twice = [{"name": "a"}, {"name": "b"}, {"name": "c", "plugins": [{"name": "clip"}]}]
    keys = [training_key(s) for s in settings_of(from_tables(tables(defences=twice)))]
    assert keys[0] == keys[1] != keys[2]


def test_a_victim_shares_the_gradient_of_one_batch(grid):
    scenario = victims_of(settings_of(grid)[3], grid.sweep, 4)
    assert (scenario.training.local_steps, scenario.training.batch_size) == (1, 4)
    assert scenario.training.optimiser == "sgd" and scenario.keeps_truth
    assert scenario.plugins[0].name == "spn" and scenario.federation.rounds == 1


def test_more_victims_than_clients_are_as_many_clients_of_the_attacked_round(tmp_path):
    grid = from_tables(tables(sweep={"attacks": ["linear"], "victims": 5, "at": 1.0}))
    cell = cells_of(grid)[0]
    folder, name = SweepFolder(tmp_path), cell.setting.name
    train(folder.training(name), cell.setting.scenario, 1.0)
    text = victims_of(cell.setting, grid.sweep, cell.batch).text()
    [result] = exposed_and_attacked(folder, [cell], name, 5, 1.0, text)
    assert result["victims"] == 5


def test_what_is_wrong_is_found_before_anything_is_trained():
    with pytest.raises(BadScenario, match=r"no \[sweep\]"):
        check(from_tables({"name": "plain"}))
    with pytest.raises(BadScenario, match="no \\[\\[defences\\]\\]"):
        check(from_tables(tables(defences=[])))
    with pytest.raises(BadOption, match="No attack is named"):
        check(from_tables(tables(sweep={"attacks": ["dgl"]})))
    order = [{"name": "dp", "noise-multiplier": 1.0}, {"name": "spn"}]
    with pytest.raises(BadOption, match="put spn first"):
        check(from_tables(tables(defences=[{"name": "a", "plugins": order}])))


def test_a_cell_trains_is_exposed_and_attacked(grid, tmp_path):
    folder = SweepFolder(tmp_path)
    results = {}
    for cell in cells_of(grid):
        setting = cell.setting
        place = folder.training(setting.name)
        guarded(folder.result(setting.name), train, place, setting.scenario, 0.0)
        text = victims_of(setting, grid.sweep, cell.batch).text()
        [results[setting.name]] = exposed_and_attacked(folder, [cell], setting.name, 2, 0.0, text)
    assert results["none-s0"]["psnr"] > 25
    assert results["noise-0.0-s0"]["rmse"] == results["none-s0"]["rmse"]
    assert results["noise-1.0-s0"]["rmse"] > 5 * results["none-s0"]["rmse"]
    assert results["noise-1.0-s0"]["m"] < results["spn-0.5-s0"]["m"]
    source = {setting.name: setting.name for setting in settings_of(grid)}
    rows = rows_of(folder, cells_of(grid), source)
    assert all(0 < row["accuracy"] <= 1 for row in rows) and len(rows) == 4


def test_a_failed_cell_says_why_and_is_tried_again(grid, tmp_path):
    folder = SweepFolder(tmp_path)
    cell = cells_of(grid)[0]
    result = guarded(folder.result(cell.name), attack, RunFolder(tmp_path / "nowhere"), cell, 1)
    assert "error" in result
    assert json.loads(folder.result(cell.name).read_text()) == result
    assert folder.done(cell.name) is None


def test_an_attack_on_the_trained_model_starts_from_it_with_the_clients_memory(tmp_path):
    scenario = from_tables(tables(sweep={"attacks": ["linear"], "at": 1.0}))
    setting = settings_of(scenario)[3]
    source, place = RunFolder(tmp_path / "training"), RunFolder(tmp_path / "victims")
    train(source, setting.scenario, 1.0)
    assert (source.path / START).exists() and len(
        list((source.path / "start-clients").iterdir())
    ) == 2
    expose(place, victims_of(setting, scenario.sweep, 1), source, 1.0)
    from fedpriv.evidence.observation import Observation
    from fedpriv.runfolder import load_state

    seen = Observation.load(place.observations / "1-0.safetensors")
    trained = load_state(source.model_file)
    assert all((seen.sent[key] == trained[key]).all() for key in trained)


def test_a_sweep_folder_is_not_started_twice(grid, tmp_path):
    folder = SweepFolder(tmp_path)
    folder.start(grid, resume=False)
    with pytest.raises(BadFolder, match="--resume"):
        folder.start(grid, resume=False)
    folder.start(grid, resume=True)
    with pytest.raises(BadFolder, match="other settings"):
        folder.start(from_tables(tables(seed=5)), resume=True)


SPN = [name for name in builtin() if name.startswith("spn-")]


@pytest.mark.parametrize("name", SPN)
def test_every_scenario_of_the_paper_can_be_built(name):
    profiles = tables_of(name)["profiles"]
    assert {"small", "paper"} <= profiles.keys()
    for profile in profiles:
        scenario = read(name, profile=profile)
        if scenario.sweep is not None:
            check(scenario)
        else:
            assert scenario.variants


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sweep_on_ray_ends_in_tables_and_resumes(tmp_path):
    scenario = from_tables(tables(defences=tables()["defences"][:2]))
    told = []
    folder = SweepFolder(tmp_path / "sweep")

    def run(resume):
        return sweep(
            scenario, folder, resume=resume, workers=1, tell=lambda *news: told.append(news)
        )

    first = run(resume=False)
    assert told[-1][0] == told[-1][1] == 6
    assert {row["defence"] for row in first["cap"]} == {"none", "noise"}
    results = pd.read_csv(folder.path / "results.csv")
    assert len(results) == 3 and not results.get("error", pd.Series(dtype=str)).notna().any()
    assert (folder.path / "ppc.png").exists()
    folder.result("noise-1.0-s0-b1-linear").unlink()
    times = folder.result("none-s0").stat().st_mtime_ns
    again = run(resume=True)
    assert folder.result("none-s0").stat().st_mtime_ns == times
    assert [row["rmse"] for row in again["rows"]] == [row["rmse"] for row in first["rows"]]
