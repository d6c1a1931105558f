"""A whole policy search: files, going on, the command, and the same result on Ray."""

import json

import pytest
import typer
from typer.testing import CliRunner

from fedpriv.errors import BadData, BadFolder, BadOption
from fedpriv.policies.policy_set import PolicySet
from fedpriv.policies.search import Search
from fedpriv.simulations.cli.search import search as command
from fedpriv.simulations.search.search import Places, search_policies
from fedpriv.simulations.search.subject import Subject

SUBJECT = Subject(data="synthetic", model="mlp", share=0.2, epochs=1, batch=8, points=3)
SETTINGS = Search(candidates=8, keep=2, images=8, rounds=3)


class Stages:
    """What a search said it would do."""

    def __init__(self):
        self.begun = []

    def __call__(self, what, count):
        self.begun.append(what)


def test_a_search_leaves_its_policies_its_scores_and_a_figure(tmp_path):
    out, said = tmp_path / "found" / "policies.json", Stages()
    found = search_policies(SUBJECT, SETTINGS, out, on_stage=said)
    assert said.begun[:2] == ["semi-trained model", "accuracy"]
    assert PolicySet.load(out) == found
    assert len(found.policies) == 2 and len(found.candidates) == 8
    assert found.data == "synthetic" and found.settings["seed"] == 0
    assert found.cost["seconds-search"] > 0
    for picture in (Places(out).figure, Places(out).curves):
        assert picture.read_bytes().startswith(b"\x89PNG")

    said = Stages()
    again = search_policies(SUBJECT, SETTINGS, out, on_stage=said)
    assert said.begun == []  # all scores and the model were there
    assert found.cost["scores"] > 0 and again.cost["scores"] == 0
    assert again.candidates == found.candidates

    more = search_policies(SUBJECT, Search(candidates=10, keep=3, images=8, rounds=3), out)
    assert len(more.policies) == 3
    with pytest.raises(BadFolder, match="points was 3, now 4"):
        search_policies(Subject(**{**vars(SUBJECT), "points": 4}), SETTINGS, out)

    Places(out).model.write_bytes(b"no weights")
    with pytest.raises(BadFolder, match="delete it"):
        search_policies(SUBJECT, SETTINGS, out)


@pytest.mark.parametrize(
    ("subject", "settings", "error"),
    [
        ({"data": "adult"}, {}, BadData),
        ({"data": "synthetic"}, {"images": 500}, BadOption),
    ],
)
def test_what_cannot_be_searched_is_refused(subject, settings, error, tmp_path):
    if subject["data"] == "adult":  # not on this machine, or a table: either is one clear error
        subject = {**subject, "root": str(tmp_path)}
    with pytest.raises(error):
        search_policies(
            Subject(**{**vars(SUBJECT), **subject}),
            Search(**{**vars(SETTINGS), **settings}),
            tmp_path / "policies.json",
            on_stage=lambda what, count: pytest.fail(f"{what} began"),
        )


@pytest.mark.parametrize("options", [{"share": 0}, {"epochs": -1}, {"points": 0}, {"batch": 1}])
def test_a_subject_out_of_range_is_refused(options):
    with pytest.raises(BadOption):
        Subject(**options)


def test_the_command_prints_what_it_keeps(tmp_path):
    app, out = typer.Typer(), tmp_path / "policies.json"
    app.command()(command)
    words = "--data synthetic --model mlp --candidates 6 --keep 2 --images 6 --rounds 2 --epochs 0"
    ran = CliRunner().invoke(app, [*words.split(), "--points", "2", "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "2 of 6 policies" in ran.stdout and "hybrid:" in ran.stdout
    again = CliRunner().invoke(app, [*words.split(), "--points", "2", "--out", str(out), "--json"])
    assert json.loads(again.stdout)["policies"] == list(PolicySet.load(out).policies)


def test_given_policies_are_judged_instead_of_random_ones(tmp_path):
    app, out = typer.Typer(), tmp_path / "policies.json"
    app.command()(command)
    words = "--data synthetic --model mlp --images 4 --rounds 1 --epochs 0 --points 2 --in-full"
    words += " --policy 3-1-7 --policy 43-18-18 --policy 3-1-7 --policy none --keep 1 --quantile 0"
    ran = CliRunner().invoke(app, [*words.split(), "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert [r.policy for r in PolicySet.load(out).candidates] == ["3-1-7", "43-18-18", "none"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ray_finds_what_one_process_finds(tmp_path):
    alone = search_policies(SUBJECT, SETTINGS, tmp_path / "alone.json")
    spread = search_policies(SUBJECT, SETTINGS, tmp_path / "spread.json", workers=2)
    assert spread.policies == alone.policies
    for ours, theirs in zip(spread.candidates, alone.candidates, strict=True):
        assert ours.policy == theirs.policy and ours.images == theirs.images
        assert ours.privacy == pytest.approx(theirs.privacy, abs=1e-4)
