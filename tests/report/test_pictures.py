"""Pictures that a page or a command draws: names on hover, sheets by value, codes by t-SNE."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedpriv.columns import SUMMARY
from fedpriv.errors import BadInput
from fedpriv.report import embedding
from fedpriv.report.about_summaries import summary_section
from fedpriv.report.blocks import Section
from fedpriv.report.drawing import svg
from fedpriv.report.fronts import charts
from fedpriv.report.leakage import measure
from fedpriv.report.page import plain_page
from fedpriv.report.reading import Material
from fedpriv.report.value_sheets import by_value


def point(run: str, accuracy: float, mse: float, front: bool = False) -> SimpleNamespace:
    about = {"group": "mnist", "way": "codes", "kind": f"codes: {run}", "attack": "decoder"}
    figures = {"accuracy": accuracy, "mse": mse, "mse_blind": 0.06, "front": front}
    return SimpleNamespace(run=f"runs/{run}", accuracy_error=0.01, **about, **figures)


def test_every_point_of_a_front_says_its_name_and_figures():
    points = [point("ars <1>", 0.7, 0.04, True), point("none", 0.9, 1e-6)]
    (chart,) = charts(points)
    drawn = svg(chart)
    said = re.findall(r"<title>([^<]*)</title>", drawn)
    assert len(said) == 2 and "runs/ars &lt;1&gt;" in said[0] and "accuracy 70.0%" in said[0]
    assert "on the front" in said[0] and "on the front" not in said[1]
    assert "≤ none" in drawn and chart.layout["yaxis"]["type"] == "log"
    page = plain_page("Fronts", [Section("pareto", "Front", charts=[chart])], "fedpriv pareto a")
    assert "<h1>Fronts</h1>" in page and 'class="verdict' not in page and "<title>runs/" in page


def test_columns_that_became_lines_are_explained():
    columns = [*SUMMARY, "psnr", "psnr-blind"]
    table = pd.DataFrame([dict.fromkeys(columns, 0.5) | {"run": name} for name in "ab"])
    (shown,) = summary_section(Material([], [], [("R: summary", table)])).tables
    told = {line[0]: line[-1] for line in shown.rows}
    assert shown.columns == ["run", "a", "b", "what it is"]
    assert told.keys() == {*columns} - {"run"} and all(told.values())
    assert told["accuracy"] == SUMMARY["accuracy"] and "signal-to-noise" in told["psnr"]
    assert "without evidence" in told["psnr-blind"]


def test_a_sheet_has_a_row_for_every_value(make_run):
    folder = make_run("swept")
    scores = folder.scores().assign(defence="dp", folder="", batch=1, seed=0)
    scores["value"] = scores["round"].map({1: 8.0, 3: 1.0})
    sheet = list(by_value(folder, scores, measure("psnr")))
    assert [tile.caption for tile in sheet] == ["dp 8.0", "dp 1.0"]
    words = [word for word, _ in sheet[0].parts]
    assert words == ["client 0", "30.0 dB", "client 1", "29.0 dB", "client 2", "28.0 dB"]
    assert all(uri.startswith("data:image/png") for _, uri in sheet[0].parts)
    assert not list(by_value(folder, scores.assign(value=1.0), measure("psnr")))


def test_codes_that_are_apart_stay_apart(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    codes = generator.normal(size=(60, 16)) + 12 * labels[:, None]
    at = embedding.embedded(codes)
    first, second = at[labels == 0], at[labels == 1]
    within = max(np.ptp(first, axis=0).max(), np.ptp(second, axis=0).max())
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > within / 2
    assert (embedding.embedded(codes) == at).all()
    embedding.draw({"a": (codes, labels), "b": (codes[:20], labels[:20])}, tmp_path / "t.png")
    assert Image.open(tmp_path / "t.png").size[0] > 600
    with pytest.raises(BadInput, match="10 codes or more"):
        embedding.embedded(codes[:4])
