"""`fedpriv reproduce`: experiments with several seeds, resumed cell by cell, and a page of all."""

from pathlib import Path

import pytest

from fedpriv.errors import BadFolder, BadOption
from fedpriv.progress import Told
from fedpriv.simulations.reproduce.carrying import Hands, Place, missing_data, reproduce
from fedpriv.simulations.reproduce.catalogue import PAPERS, experiments_of
from fedpriv.simulations.reproduce.experiment import (
    Experiment,
    Finding,
    Item,
    Paper,
    concluded,
)
from fedpriv.simulations.reproduce.page import page, rows_of
from fedpriv.simulations.reproduce.seeds import above, by_seed, over, ruled
from fedpriv.tables import write_table

TINY = """
name = "tiny"
attacks = [{ name = "decoder" }]
[data]
name = "mnist-5k"
limit = 60
[federation]
clients = 2
rounds = 1
strategy = "representation"
backend = "inline"
[representation]
autoencoder = "mlp"
options = { hidden = [8], code = 4 }
encoder-epochs = 1
decoder-epochs = 1
task-epochs = 1
victims = 8
[[variants]]
name = "none"
[[variants]]
name = "noisy"
plugins = [{ name = "noisy", scale = 0.5 }]
[profiles.small]
"""


def higher(rows):
    """An error that noise makes larger, or not."""
    found = over(by_seed(rows, "mse", run="noisy"))
    return ruled((above(found),), f"error {found.said()}", "blind")


@pytest.fixture
def world(tmp_path: Path):
    scenario = tmp_path / "tiny.toml"
    scenario.write_text(TINY, "utf-8")
    experiment = Experiment(
        name="tiny", scenario=str(scenario), rule="none", seeds=(1, 2), spare=(3,)
    )
    item = Item(where="table 1", claim="Noise helps.", experiment="tiny", judge=higher)
    paper = Paper("TINY", "Nobody.", (item,), (experiment,))
    return paper, Place(tmp_path / "out", tmp_path / "work")


def carried(world, resume=False):
    paper, place = world
    told: list[str] = []
    failed = reproduce(
        [paper],
        paper.experiments,
        place,
        "small",
        resume=resume,
        hands=Hands(),
        tell=told.append,
        told=Told(),
    )
    return failed, told


def test_an_experiment_runs_every_seed_and_resumes_what_is_there(world):
    paper, place = world
    failed, told = carried(world)
    assert failed == []
    assert "tiny: undecided, so its spare seeds are run too" in told  # two seeds decide nothing
    rows = rows_of("tiny", place.out / "measured")
    assert {(row["seed"], row["run"]) for row in rows} == {
        (seed, run) for seed in (1, 2, 3) for run in ("none", "noisy")
    }
    for row in rows:
        assert row["n"] == 8 and row["mse-low"] <= row["mse"] <= row["mse-high"]
        assert row["mse-blind"] > 0 and 0 < row["majority"] < 1 and row["accuracy-se"] >= 0
        assert row["minutes"] >= 0 and row["command"].startswith("fedpriv reproduce tiny")
    with pytest.raises(BadFolder, match="--resume"):
        carried(world)
    (place.work / "tiny" / "seed-2-noisy.json").unlink()
    _, again = carried(world, resume=True)
    assert sum("there already" in line for line in again) == 5
    same = [(row["seed"], row["run"], row["mse"]) for row in rows]
    after = rows_of("tiny", place.out / "measured")
    assert [(row["seed"], row["run"], row["mse"]) for row in after] == same
    assert "| table 1 | Noise helps. |" in page([paper], place.out / "measured")


def test_a_cell_that_was_stopped_is_not_told_as_done(world):
    paper, place = world
    said: list[str] = []
    asked = iter([True])  # the first cell starts and is stopped in its work
    reproduce(
        [paper],
        paper.experiments,
        place,
        "small",
        resume=False,
        hands=Hands(),
        tell=said.append,
        told=Told(lambda *_: next(asked, False)),
    )
    assert said == [] and not list(place.work.rglob("seed-*.json"))


def test_a_cell_of_other_settings_is_not_taken_for_this_one(world, tmp_path: Path):
    carried(world)
    text = (tmp_path / "tiny.toml").read_text("utf-8")
    (tmp_path / "tiny.toml").write_text(text.replace("code = 4", "code = 5"), "utf-8")
    failed, _ = carried(world, resume=True)
    assert "other settings" in failed[0]


def test_fewer_than_three_seeds_decide_nothing():
    item = Item(where="", claim="", experiment="e", judge=lambda rows: Finding("refuted", "r"))
    rows = [{"seed": seed} for seed in (1, 2)]
    assert concluded(item, rows).verdict == "undecided"
    assert concluded(item, [*rows, {"seed": 3}]).verdict == "refuted"
    assert concluded(item, rows[:1]).verdict == concluded(item, []).verdict == "not done"


def test_a_drawing_is_not_counted_among_what_is_not_done(tmp_path: Path):
    items = (
        Item(where="figure 1", claim="The idea.", nothing="a drawing"),
        Item(where="figure 2", claim="Faces.", why_not="no faces are at hand"),
    )
    text = page([Paper("TINY", "Nobody.", items)], tmp_path)
    assert "2 rows: 1 not done, 1 nothing to test." in text
    assert "| nothing to test: a drawing |" in text and "| not done: no faces" in text


def test_a_row_tells_the_seeds_that_all_its_runs_have_and_no_others():
    def judge(rows):
        return Finding("reproduced", f"{sorted({row['seed'] for row in rows})}")

    item = Item(where="", claim="", experiment="e", judge=judge, runs=("a", "b"))
    rows = [{"seed": seed, "run": "a"} for seed in (1, 2, 3)]
    assert "not been made yet: b" in concluded(item, rows).result
    rows += [{"seed": seed, "run": "c"} for seed in (1, 2, 3)]
    for seed, verdict in ((2, "not done"), (3, "undecided"), (1, "reproduced")):
        rows.append({"seed": seed, "run": "b"})
        assert concluded(item, rows).verdict == verdict
    assert concluded(item, [row for row in rows if row["seed"] > 1]).result.startswith("[2, 3]")


def test_a_profile_has_a_table_and_a_row_of_its_own(tmp_path: Path):
    def judge(rows):
        return Finding("reproduced", f"mean {sum(row['mse'] for row in rows) / len(rows):.0f}")

    item = Item(where="table 1", claim="Noise helps.", experiment="tiny", judge=judge)
    paper = Paper(
        "TINY", "Nobody.", (item,), (Experiment(name="tiny", scenario="demo", rule="none"),)
    )
    place = Place(tmp_path, tmp_path / "work")
    for profile, value in (("small", 3.0), ("paper", 5.0)):
        rows = [{"seed": seed, "mse": value} for seed in (1, 2, 3)]
        write_table(place.table("tiny", profile), rows)
    text = page([paper], tmp_path / "measured")
    small, large = (line for line in text.splitlines() if line.startswith("| table 1"))
    assert "mean 3" in small and "--profile small" in small
    assert "mean 5" in large and "--profile paper" in large and "profile paper |" in large
    assert "2 rows: 2 reproduced" in text


def test_intervals_over_seeds_are_students():
    found = over([1.0, 2.0, 3.0])
    assert found.mean == 2 and found.low == pytest.approx(2 - 4.302653 / 3**0.5)
    assert above(over([1.0, 1.1])) == "open" and "2 of at least 3 seeds" in over([1.0, 1.1]).said()
    lacks = Item(  # what it compares is in no row
        where="", claim="", experiment="e", judge=lambda rows: ruled((above(over({})),), "", "")
    )
    assert concluded(lacks, [{"seed": 1}, {"seed": 2}]).verdict == "not done"
    assert above(found) == "open" and above(over([1.0, 1.1, 0.9])) == "yes"
    assert ruled(("yes", "open"), "", "").verdict == "undecided"
    assert ruled(("open", "no"), "", "").verdict == "refuted"


def test_the_page_has_every_item_and_is_the_one_in_the_docs():
    docs = Path(__file__).parents[2] / "docs"
    text = page(PAPERS, docs / "measured")
    assert all(f"| {item.where} |" in text for paper in PAPERS for item in paper.items)
    assert (docs / "papers.md").read_text("utf-8") == text, "make manual"


def test_items_name_experiments_that_are_there_or_say_why_not():
    for paper in PAPERS:
        names = {one.name for one in paper.experiments}
        for item in paper.items:
            assert bool(item.judge) == bool(item.experiment), item.where
            reasons = (item.experiment in names, bool(item.why_not), bool(item.nothing))
            assert sum(reasons) == 1 and (not item.experiment or reasons[0]), item.where
    every = [one for paper in PAPERS for one in paper.experiments]
    assert experiments_of("all") == [one for one in every if not one.alone]
    assert experiments_of("ats-table2")[0] not in experiments_of("ats")
    with pytest.raises(BadOption, match="Did you mean 'ran'"):
        experiments_of("rann")


def test_data_that_are_missing_are_named_before_the_start(world, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDPRIV_DATA", str(tmp_path))
    one = Experiment(
        name="x", scenario=world[0].experiments[0].scenario, rule="", settings=("data.name=svhn",)
    )
    assert "svhn" in missing_data([one], "small")["x"]
