"""The first screen: what a reader who does not scroll learns, and that it is so."""

import math
import re

import numpy as np
import pytest
import torch

from fedpriv.metrics.images import psnr
from fedpriv.report.about_audits import audit_section, of_servers
from fedpriv.report.first import attackers, audit_of, first_of_runs
from fedpriv.report.gallery import picture_uri
from fedpriv.report.kinds import kinds_in, kinds_of_audit
from fedpriv.report.ladder import STEPS, ladder, pixels_of
from fedpriv.report.leakage import measure
from fedpriv.report.page import page_of
from fedpriv.report.reading import read_material
from fedpriv.report.sheet import laid_out, write_sheet
from fedpriv.report.verdict import verdict_of_audit


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("kind", ["drawn", "grey", "black"])
def test_a_step_of_the_ladder_has_the_psnr_that_it_says(shape, kind):
    drawn = np.random.default_rng(3).random(shape).round()
    pixels = {"drawn": drawn, "grey": np.full(shape, 0.5), "black": np.zeros(shape)}[kind]
    found = ladder(picture_uri(pixels), 20.0)
    assert [word for word, _ in found.parts[1:]] == [
        f"{step} dB" + (" (bound)" if step == 20 else "") for step in STEPS
    ]
    original = torch.from_numpy(pixels_of(found.parts[0][1]))[None]
    for step, (_, uri) in zip(STEPS, found.parts[1:], strict=True):
        noisy = torch.from_numpy(pixels_of(uri))[None]
        assert float(psnr(noisy, original)) == pytest.approx(step, abs=0.1)


def test_every_kind_of_claim_has_its_card(make_run):
    folder = make_run(psnr=30.0, clients=40)
    rows = folder.scores()
    rows["label-hit"], rows["label-hit-blind"] = 1.0, 0.1
    rows["traced-hit"], rows["traced-hit-blind"] = 0.0, 0.1
    rows["attribute-hit"], rows["attribute-hit-blind"] = 1.0, 0.95  # majority: nothing to learn
    folder.write_scores(rows.to_dict("records"))
    found = {kind.claim: kind for kind in kinds_in(folder.scores())}
    assert [found[name].light for name in ("sample", "labels", "owner")] == ["red", "red", "green"]
    assert found["attribute"].light == "grey"
    assert found["labels"].figures == "80 of 80 labels recovered"
    assert found["labels"].beside == "a blind guess: 10%"
    text = page_of(read_material([folder.path]))
    for claim, light in (("sample", "red"), ("labels", "red"), ("owner", "green")):
        assert re.search(rf'<li class="{light}"><p class="claim">.*?{claim}</p>', text, re.DOTALL)


@pytest.mark.parametrize(("hits", "light"), [(11, "grey"), (40, "red")])
def test_a_threshold_from_few_outsiders_is_not_exact(make_run, hits, light):
    """11 of 500 members, where 5 of 500 outsiders may be accused, is what chance can do."""
    folder = make_run()
    about = {"run": "plain", "round": 1, "node": 0, "attack": "member-loss", "claim": "member"}
    rows = [about | {"victim": i, "member-hit": float(i < hits), "others": 500} for i in range(500)]
    folder.write_scores(rows)
    (kind,) = kinds_in(folder.scores())
    assert (kind.claim, kind.light) == ("member", light)


def test_a_card_names_the_run_where_there_are_several(make_run):
    quiet = make_run("quiet", psnr=12.0, federation={"rounds": 5})
    runs = read_material([make_run("loud").path, quiet.path]).runs
    first = first_of_runs(runs, measure("psnr"), "red")
    assert [kind.figures for kind in first.kinds] == ["loud: 3 of 3 above 20.0 dB"]
    assert "loud" in first.picture.caption
    assert attackers(runs)[0] == "sample: curious server, dlg of loud (3 samples)"


def test_what_one_federation_leaks_is_not_said_of_another(make_run):
    """The accuracy of a federation stands in its own sentence, and what nobody attacked is said."""
    trained = make_run("trained", federation={"rounds": 3})
    trained.scores_file.unlink()
    folder = make_run("leaky", federation={"rounds": 4})
    text = page_of(read_material([trained.path, folder.path]))
    assert 'class="verdict red"' in text
    assert re.search(r"leaky: A curious server got 3 of 3 .* in 3 of 4 rounds\.</p>", text)
    assert "trained: nothing was attacked here. The federation reached 90.0% accuracy" in text
    assert "<li>trained: nothing was attacked</li>" in text


@pytest.mark.parametrize(
    ("typed", "audit"),
    [
        ("fedpriv run demo --out x", "fedpriv audit demo --minutes 10"),
        (
            "fedpriv sweep my.toml --profile small --resume --set training.lr=1",
            "fedpriv audit my.toml --profile small --set training.lr=1 --minutes 10",
        ),
        ("fedpriv run --set seed=3 'my file.toml'", "fedpriv audit 'my file.toml' --set seed=3 "),
        ("pytest -q", "fedpriv audit named --minutes 10"),
        ("", "fedpriv audit named --minutes 10"),
        ("fedpriv run 'torn", "fedpriv audit named --minutes 10"),
    ],
)
def test_the_next_command_is_about_what_was_typed(typed, audit):
    assert audit_of({"command": typed}, "named").startswith(audit)


def test_a_run_without_pictures_has_a_first_screen(make_run):
    folder = make_run()
    rows = folder.scores().assign(psnr=math.nan, ssim=math.nan).to_dict("records")
    folder.write_scores([row | {"relative-error": 0.1} for row in rows])
    first = first_of_runs(read_material([folder.path]).runs, measure("relative-error"))
    assert first.tested and first.command.startswith("fedpriv audit plain")


@pytest.mark.parametrize(
    ("doubts", "sample", "member"),
    [
        ([], "green", "green"),
        (["all rounds: no attack on the member beats a blind guess"], "green", "grey"),
        (
            ["round-1: the best attack on the sample is no better than a blind guess"],
            "grey",
            "green",
        ),
        (["training ended after 1 of 5 rounds"], "grey", "grey"),
    ],
)
def test_a_card_is_green_only_where_nothing_is_doubted(doubts, sample, member):
    about = {"word": "holds", "victims": 40, "clients": 40, "hits": 0, "low": 0.0, "high": 0.1}
    about |= {"blind": 0.01, "bound": None}
    of = [{**about, "claim": "sample", "metric": "label-overlap"}]
    of += [{**about, "claim": "member", "metric": "member-hit"}]
    leaks = {**about, "claim": "owner", "metric": "traced-hit", "word": "leaks"}
    found = {"questions": [*of, leaks], "coverage": [], "doubts": doubts}
    lights = {kind.claim: kind.light for kind in kinds_of_audit(found)}
    assert lights == {"sample": sample, "member": member, "owner": "red"}


def test_a_row_of_a_table_says_what_its_card_says(make_audit):
    """A row of members was green below a grey card."""
    asked = [{"word": "holds"}, {"word": "holds", "claim": "member"}, {"claim": "labels"}]
    doubts = ["all rounds: no attack on the member beats a blind guess"]
    folder = make_audit(asked=asked, doubts=doubts, outcome="undecided")
    found = folder.verdict()
    (run,) = read_material([folder.path]).runs
    words = {row[0]: (row[1].text, row[1].mark) for row in audit_section(run).tables[0].rows}
    assert words == {"sample": ("holds", "good"), "member": ("undecided", ""),
                     "labels": ("leaks", "bad")}  # fmt: skip
    servers = {"outcome": "undecided", "questions": found["questions"]}
    assert [row[1].text for row in of_servers("servers", servers).rows] == [
        "undecided",
        "undecided",
        "leaks",
    ]
    write_sheet(folder.path)
    sheet = [text.words for text in laid_out(run).texts]
    assert sheet.count("holds") == 1 and sheet.count("undecided") == 1


def test_what_a_malicious_server_read_stands_in_the_answer(make_audit):
    part = {"questions": [], "turned-away": {}, "guarded": None}
    folder = make_audit(
        outcome="undecided",
        sentence="Undecided: no leak was found, but time was short.",
        possible={"outcome": "undecided", "sentence": "Others were not decided.", "questions": []},
        malicious={"outcome": "leaks", "sentence": "A server reads more.", **part},
        advice="",
    )
    found = verdict_of_audit(read_material([folder.path]).runs[0])
    assert found.sentences == (
        "No leak was found, but time was short.", "A server reads more.", "Others were not decided."
    )  # fmt: skip
