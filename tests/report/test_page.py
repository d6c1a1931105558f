"""The page: it says what the numbers say, needs nothing from outside and shows names as text."""

import math
import re
import shutil
import stat
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch

from fedpriv.errors import BadFolder
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.images import CEILING
from fedpriv.report.charts import accuracy_by_round, confusion_of_owners, leakage_by_round
from fedpriv.report.drawing import svg
from fedpriv.report.figures import save_grid
from fedpriv.report.gallery import Pairs, picture_uri, tiles
from fedpriv.report.leakage import measure
from fedpriv.report.page import page_of, write_report
from fedpriv.report.reading import read_material
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables

TEXT = "{http://www.w3.org/2000/svg}text"


class Seen(HTMLParser):
    """Tags that never close or close twice, and every address that the page names."""

    VOID = frozenset({"meta", "link", "img", "br", "circle", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for key, value in attrs if key in ("src", "href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def without_scripts(text: str) -> str:
    return re.sub(r"<script( type=\"text/plain\"[^>]*)?>.*?</script>", "", text, flags=re.DOTALL)


def test_a_leak_is_red_and_named(make_run):
    text = page_of(read_material([make_run(psnr=30.0).path]))
    assert 'class="verdict red"' in text
    assert "got 3 of 3 samples above 20.0 dB (95 % interval 29% to 100%)" in text
    assert "client 0 in round 1, reached 30.0 dB PSNR with the attack dlg" in text


@pytest.mark.parametrize(
    ("psnr", "clients", "light"), [(20.5, 29, "red"), (14.0, 29, "green"), (14.0, 28, "grey")]
)
def test_the_light_follows_the_worst_victim_and_green_needs_enough(make_run, psnr, clients, light):
    text = page_of(read_material([make_run(psnr=psnr, clients=clients).path]))
    assert f'class="verdict {light}"' in text
    assert ("too few were attacked. 29 without a hit are needed" in text) == (light == "grey")


def test_the_gate_of_the_scenario_moves_the_bound(make_run):
    text = page_of(read_material([make_run(psnr=14.0, gate={"psnr": 10.0}).path]))
    assert 'class="verdict red"' in text


def test_a_run_without_scores_claims_nothing(make_run):
    folder = make_run()
    folder.scores_file.unlink()
    text = page_of(read_material([folder.path]))
    assert 'class="verdict grey"' in text and "cannot say what leaks" in text


def test_runs_side_by_side_give_the_price_of_the_defence(make_run):
    plain = make_run("plain")
    defended = make_run("pruned", psnr=12.0, plugins=[{"name": "pruning", "fraction": 0.05}])
    text = page_of(read_material([plain.path, defended.path]))
    assert 'class="verdict grey"' in text  # the undefended run is there for comparison
    assert "pruning(fraction=0.05)" in text
    assert "Against no defence (90.0%), pruned gained 0.0 points of accuracy" in text
    assert (
        "reached 12.0 dB PSNR with the attack dlg. So at most 63% of all clients can have" in text
    )
    assert "Without a defence the worst was 30.0" in text


@pytest.mark.parametrize(("bare", "light"), [(30.0, "green"), (14.0, "grey")])
def test_attacks_that_fail_on_bare_clients_decide_nothing(make_run, bare, light):
    plugins = [{"name": "pruning", "fraction": 0.05}]
    defended = make_run("pruned", psnr=12.0, clients=29, plugins=plugins)
    text = page_of(read_material([make_run("plain", psnr=bare).path, defended.path]))
    assert f'class="verdict {light}"' in text
    assert ("decide nothing about a defence" in text) == (light == "grey")


def test_only_the_same_federation_says_what_a_defence_cost(make_run):
    other = make_run("other", federation={"rounds": 30})
    defended = make_run("pruned", plugins=[{"name": "pruning", "fraction": 0.05}])
    text = page_of(read_material([other.path, defended.path]))
    assert "because the same without a defence is not on this page" in text


def test_nothing_is_asked_of_the_network(make_run):
    seen = Seen(without_scripts(page_of(read_material([make_run().path]))))
    assert not seen.open
    assert all(address.startswith(("data:", "#")) for address in seen.addresses)
    assert (
        sum(address.startswith("data:image/png") for address in seen.addresses) == 36 + 3 + 6
    )  # the gallery, the worst once more, and its original at five strengths of noise


def test_names_are_text_not_markup(make_run):
    evil = "</script><img src=x onerror=alert(1)>"
    text = page_of(read_material([make_run("evil", summary=evil).path]), command=evil)
    assert evil not in text and "&lt;img src=x" in text


def test_charts_are_drawn_as_svg(make_run):
    runs = read_material([make_run().path]).runs
    scores = runs[0].scores.assign(run=runs[0].name)
    for chart in (accuracy_by_round(runs), leakage_by_round(scores, measure("psnr"), True)):
        drawn = ElementTree.fromstring(svg(chart))
        texts = {"".join(part.itertext()) for part in drawn.iter(TEXT)}
        assert {line["name"] for line in chart.data if chart.layout["showlegend"]} <= texts
        assert chart.layout["yaxis"]["title"]["text"] in texts
        assert "currentColor" in svg(chart) and "#010203" not in svg(chart)
        assert chart.rows and all(len(row) == len(chart.columns) for row in chart.rows)


def test_a_perfect_copy_has_a_number(make_run):
    folder = make_run()
    rows = folder.scores().replace({"psnr": {30.0: math.inf}}).to_dict("records")
    folder.write_scores(rows)
    assert f"reached {CEILING:.1f} dB" in page_of(read_material([folder.path]))


def test_a_folder_of_variants_is_its_runs(make_run):
    make_run("a")
    folder = make_run("b")
    runs = read_material([folder.path.parent]).runs
    assert [run.name for run in runs] == ["a", "b"]


def test_runs_of_one_name_are_told_apart(make_run):
    paths = [make_run(f"{place}/same").path for place in ("a", "b")]
    names = [run.name for run in read_material([*paths, paths[0]]).runs]
    assert names == ["a/same", "b/same", "a/same (2)"]


@pytest.mark.parametrize(
    ("folder", "scenario", "title"),
    [
        ("defended", "mine", "mine (defended)"),
        ("mine-20260101-120000", "mine", "mine-20260101-120000"),
        ("one-step", "demo-one-step", "demo-one-step"),
        ("mine", "mine", "mine"),
    ],
)
def test_the_title_names_the_scenario(make_run, tmp_path, folder, scenario, title):
    make_run(folder).path.joinpath("scenario.toml").write_text(
        from_tables({"name": scenario, "attacks": [{"name": "dlg"}]}).toml()
    )
    page = write_report([tmp_path / folder]).read_text("utf-8")
    assert re.search(r"<title>Privacy report: (.*?)\s*</title>", page).group(1) == title


def test_the_page_lies_beside_the_run(make_run):
    folder = make_run()
    assert write_report([folder.path]) == folder.report_file
    assert folder.report_file.stat().st_size < 1.5e6


def test_a_page_with_pictures_is_its_owners(make_run):
    folder = make_run()
    shutil.rmtree(folder.attacks)
    place = write_report([folder.path])
    assert stat.S_IMODE(place.stat().st_mode) & 0o044  # figures may be read by others
    save_grid(folder.picture_file("dlg", "3-1"), [torch.zeros(2, 1, 6, 6)] * 2)
    assert stat.S_IMODE(write_report([folder.path]).stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [None, "not,a\nrun,folder"])
def test_what_is_no_run_is_said_so(tmp_path, content):
    place = tmp_path / "nothing"
    if content:
        place.mkdir()
        (place / "other.csv").write_text(content)
    with pytest.raises(BadFolder, match="nothing"):
        read_material([place])


def test_damaged_scores_are_named(make_run):
    folder: RunFolder = make_run()
    folder.scores_file.write_bytes(b"\xff\xfe\x00 no csv \xff")
    with pytest.raises(BadFolder, match="scores.csv"):
        read_material([folder.path])


def test_the_gallery_pairs_a_guess_with_its_sample(tmp_path, make_run):
    folder = make_run()
    black, white = torch.zeros(1, 6, 6), torch.ones(1, 6, 6)
    truth = {"y": torch.zeros(2), "clean": 1.0, "added": 0.0, "round": 1, "node": 0}
    x = torch.stack([black, white])
    Truth(x=x, trained=1 - x, indices=torch.tensor([5, 9]), **truth).save(folder.truth)
    guess = torch.stack([white, black])[None]  # a batch comes back in any order
    found = Reconstruction(x=guess, labels=torch.zeros(1, 2), loss=torch.zeros(1))
    found.save(folder.claim_file("dlg", "1-0"))
    row = pd.Series({"round": 1, "node": 0, "attack": "dlg", "victim": 9})
    parts = dict(Pairs(folder).of(row))
    pictures = {word: picture_uri(p.numpy()) for word, p in (("black", black), ("white", white))}
    assert parts == {
        "original": pictures["white"],
        "as trained on": pictures["black"],
        "reconstruction": pictures["white"],
        "error": pictures["black"],
    }
    assert Pairs(folder).of(row.replace(9, 7)) == ()


def test_where_only_a_picture_was_saved_it_is_shown(make_run):
    folder = make_run()
    for path in folder.attacks.rglob("*.npz"):
        path.unlink()
    save_grid(folder.picture_file("dlg", "3-1"), [torch.zeros(2, 1, 6, 6)] * 2)
    (run,) = read_material([folder.path]).runs
    (tile,) = tiles(run.folder, run.scores, measure("psnr"), most=5)
    assert tile.caption == "at worst PSNR 29.0 dB · SSIM 0.725 · client 1, round 3 · dlg"
    assert [word for word, _ in tile.parts] == ["samples over their reconstructions"]


def test_what_a_scenario_ends_in_is_shown(make_run):
    folder = make_run()
    folder.write_summary([{"run": "plain", "mcc": 0.51239, "note": ""}])
    text = page_of(read_material([folder.path]))
    assert "plain: summary" in text and "0.5124" in text


def test_whose_a_sample_is_is_drawn_as_squares():
    """Each square has its number while there is room; many clients have squares alone."""
    few = confusion_of_owners(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2]), "owner-cosine")
    many = confusion_of_owners(np.arange(40), np.arange(40), "owner-cosine")
    for chart, numbers in ((few, 9 + 6), (many, 0 + 40)):
        drawn = ElementTree.fromstring(svg(chart))
        texts = ["".join(part.itertext()).strip() for part in drawn.iter(TEXT)]
        assert sum(text.isdigit() for text in texts) == numbers
