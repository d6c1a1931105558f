"""`fedpriv reproduce --trial`: a hundredth of a large profile runs, and says how long all takes."""

import re
from pathlib import Path

import pytest

from fedpriv.errors import BadFolder
from fedpriv.progress import Told
from fedpriv.scenario import read
from fedpriv.simulations.reproduce.carrying import Place
from fedpriv.simulations.reproduce.experiment import Experiment, Finding, Item, Paper
from fedpriv.simulations.reproduce.page import page, rows_of
from fedpriv.simulations.reproduce.trial import seconds_of_sweep, shortened, tried
from fedpriv.simulations.sweep.cells import cells_of
from fedpriv.tables import write_table

CODES = """
name = "codes"
attacks = [{ name = "decoder" }]
[data]
name = "mnist-5k"
limit = 120
[federation]
clients = 2
rounds = 1
strategy = "representation"
backend = "inline"
[representation]
autoencoder = "mlp"
options = { hidden = [8], code = 4 }
encoder-epochs = 50
decoder-epochs = 20
victims = 4
[[variants]]
name = "none"
[[variants]]
name = "noisy"
plugins = [{ name = "noisy", scale = 0.5 }]
[profiles.paper]
"""
UPDATES = """
name = "updates"
[data]
name = "mnist-5k"
limit = 60
[model]
name = "mlp"
hidden = [8]
[federation]
clients = 2
rounds = 200
[sweep]
attacks = ["dlg"]
batch-sizes = [1, 2]
seeds = [0]
victims = 2
options = { dlg = { steps = 250 } }
[[defences]]
name = "none"
[[defences]]
name = "noise"
plugins = [{ name = "noise" }]
vary = "noise.scale"
values = [0.1, 0.2, 0.3]
informed = []
[profiles.paper]
"""


def experiment_of(text: str, folder: Path, work: str) -> Experiment:
    path = folder / f"{work}.toml"
    path.write_text(text, "utf-8")
    return Experiment(name=work, scenario=str(path), rule="", work=work)


def test_a_trial_is_a_hundredth_of_codes_and_says_the_hours_of_all_seeds(tmp_path: Path):
    experiment = experiment_of(CODES, tmp_path, "run")
    short = shortened(read(experiment.scenario, (), "paper"))
    assert short.data.limit == 60  # one epoch on a half, instead of 50 on all
    assert short.representation.encoder_epochs == short.representation.task_epochs == 1
    place = Place(tmp_path / "out", tmp_path / "work")

    def again(resume: bool) -> list[str]:
        return tried([experiment], place, "paper", resume=resume, tell=said.append, told=Told())

    said: list[str] = []
    assert again(resume=False) == []
    rows = rows_of("trials", place.out / "measured")
    assert [row["run"] for row in rows] == ["none", "noisy"]
    for row in rows:  # three seeds, a hundred times as long
        assert row["hours"] == pytest.approx(300 * row["seconds"] / 3600, abs=0.06)
    with pytest.raises(BadFolder, match="--resume"):
        again(resume=False)
    assert again(resume=True) == [] and rows_of("trials", place.out / "measured") == rows
    text = page([Paper("TINY", "Nobody.", (), (experiment,))], place.out / "measured")
    assert "- `run`: the first hundredth of the steps ran (2 runs, " in text
    assert re.search(r"with 3 seeds, takes at most [1-9]\d* hours of one core", text)


def test_what_was_not_run_has_the_hours_of_its_own_trial_as_reason(tmp_path: Path):
    item = Item(where="table 1", claim="Any.", experiment="run", judge=lambda rows: Finding("", ""))
    experiment = Experiment(name="run", scenario="demo", rule="none")
    row = {"experiment": "run", "run": "", "seconds": 4.0, "hours": 5.2, "seeds": 3}
    for profile, told in (("paper", "it has not been run yet"), ("small", "at most 6 hours of")):
        write_table(tmp_path / "trials.csv", [row | {"profile": profile}])
        text = page([Paper("TINY", "Nobody.", (item,), (experiment,))], tmp_path)
        assert f"not done: {told}" in text or f"not run; 3 seeds take {told}" in text
        assert ("tried with `--profile paper" in text) == (profile == "paper")


def test_a_trial_of_a_sweep_attacks_once_with_each_defence(tmp_path: Path):
    experiment = experiment_of(UPDATES, tmp_path, "sweep")
    full = read(experiment.scenario, (), "paper")
    short = shortened(full)
    assert short.federation.rounds == 2 and short.sweep.victims == 1
    assert short.sweep.options["dlg"]["steps"] == 3
    assert len(cells_of(full)) == 8 and len(cells_of(short)) == 4
    place = Place(tmp_path / "out", tmp_path / "work")
    assert tried([experiment], place, "paper", resume=False, tell=print, told=Told()) == []
    (row,) = rows_of("trials", place.out / "measured")
    assert row["attacks"] == 2 and row["seconds"] > 0


def test_what_a_trial_cannot_run_is_said(tmp_path: Path):
    experiment = experiment_of(UPDATES.replace('"dlg"]', '"gan"]'), tmp_path, "sweep")
    place = Place(tmp_path / "out", tmp_path / "work")
    (failed,) = tried([experiment], place, "paper", resume=False, tell=print, told=Told())
    assert failed.startswith("sweep: ") and "gan" in failed
    assert not rows_of("trials", place.out / "measured")


def test_the_time_of_a_sweep_is_counted_by_training_value_victim_and_step(tmp_path: Path):
    full = read(experiment_of(UPDATES, tmp_path, "sweep").scenario, (), "paper")
    rows = [
        {"defence": name, "attack": "dlg", "batch": batch, "training-seconds": 2, "seconds": batch}
        for name in ("none", "noise")
        for batch in (1, 2)
    ]
    trainings = 4 * 2 * 100  # a training for each value; two of 200 rounds took two seconds
    attacks = 4 * (1 + 2) * 2 * 250 / 3  # three of 250 steps on one of two victims
    assert seconds_of_sweep(rows, full) == pytest.approx(trainings + attacks)
