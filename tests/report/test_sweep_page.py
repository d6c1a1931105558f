"""The page of a sweep: which defence holds, against whom, at what price; and it stays small."""

import math
from pathlib import Path

import pytest

from fedpriv.report.about_sweeps import finished, measure_of, sweep_sections
from fedpriv.report.drawing import svg
from fedpriv.report.first import first_of_sweep
from fedpriv.report.page import page_of, write_report
from fedpriv.report.reading import read_material
from fedpriv.report.sweep_verdict import verdict_of_sweep
from fedpriv.scenario import from_tables
from fedpriv.sweepfolder import SweepFolder


def sweep(
    folder: Path, leaks: dict[tuple[str, float, str], float], seeds: int = 1, victims: int = 29
) -> Path:
    """A sweep folder; `leaks` maps defence, value and attack to the best PSNR."""
    place = SweepFolder(folder)
    place.begin(from_tables({"name": "s"}), resume=False)
    rows = [
        {
            "defence": defence,
            "value": value if defence != "none" else math.nan,
            "seed": seed,
            "batch": 1,
            "attack": attack,
            "knows": defence if attack.endswith("-aware") else "",
            "accuracy": 0.9 - (0 if defence == "none" else value),
            "psnr": leak - 2,
            "psnr-worst": leak,
            "relative-error": 10 ** (-leak / 20),
            "victims": victims,
            "m": math.inf if defence == "none" else 1 / value,
            "region": "red",
        }
        for (defence, value, attack), leak in leaks.items()
        for seed in range(seeds)
    ]
    place.write_results(rows)
    cap = {"batch": 1, "attack": "dlg", "knows": "", "values": 1, "accuracy": 0.8}
    place.write_cap([{"defence": "spn", **cap, "cap-reconstruction": 0.69}], "", "")
    return folder


NONE = {("none", 0.0, "dlg"): 35.0}


@pytest.mark.parametrize(
    ("leaks", "light"),
    [
        ({("spn", 0.1, "dlg"): 8.0, ("spn", 0.1, "spn-aware"): 25.0}, "red"),
        ({("noise", 0.1, "dlg"): 8.0}, "grey"),  # nobody who knows it has tried
        ({("dp", 0.1, "dlg"): 8.0, ("dp", 0.1, "noise-aware"): 9.0}, "green"),
    ],
)
def test_only_who_was_attacked_knowingly_is_green(tmp_path, leaks, light):
    (grid,) = read_material([sweep(tmp_path / "s", NONE | leaks)]).grids
    assert verdict_of_sweep(grid).light == light


def test_a_few_victims_are_no_proof(tmp_path):
    leaks = NONE | {("dp", 0.1, "dlg"): 8.0, ("dp", 0.1, "noise-aware"): 9.0}
    (grid,) = read_material([sweep(tmp_path / "s", leaks, victims=3)]).grids
    found = verdict_of_sweep(grid)
    assert found.light == "grey" and "no proof, with 3 victims a setting" in found.sentences[0]


def test_the_answer_names_the_cheapest_that_holds(tmp_path):
    leaks = {
        ("dp", 0.3, "dlg"): 8.0,
        ("dp", 0.3, "noise-aware"): 9.0,
        ("dp", 0.1, "dlg"): 9.0,
        ("dp", 0.1, "noise-aware"): 12.0,
        ("dp", 0.05, "dlg"): 12.0,
        ("dp", 0.05, "noise-aware"): 30.0,
    }
    (grid,) = read_material([sweep(tmp_path / "s", NONE | leaks)]).grids
    first, second, third = verdict_of_sweep(grid).sentences
    assert first.startswith("3 settings have a defence.") and "do not know it, 3 of them" in first
    assert "tried on 3; 2 of these keep" in first
    assert "35.0 dB, came from none with the attack dlg" in second
    assert "dp 0.1 with 80.0% accuracy, 90.0% without a defence" in third


def test_cells_without_a_result_are_not_called_tested(tmp_path):
    place = SweepFolder(sweep(tmp_path / "s", NONE | {("dp", 0.1, "noise-aware"): 9.0}))
    broken = {"value": 0.1, "seed": 0, "batch": 1, "attack": "linear", "error": "Boom"}
    kept = place.results().to_dict("records")
    place.write_results([*kept, {"defence": "dp", **broken}, {"defence": "cut", **broken}])
    (grid,) = read_material([place.path]).grids
    said = verdict_of_sweep(grid).sentences[0]
    assert said.startswith("2 settings have a defence, 1 of them a result.")
    assert "who do not know it gave a result on 0." in said
    assert "tried on 1; 0 of these keep every reconstruction within 20.0 dB" in said
    tested = first_of_sweep(grid, measure_of(grid)).tested
    assert "3 settings, 2 of 4 cells" in tested and "sample: linear" not in tested


def test_charts_and_tables_of_a_sweep(tmp_path):
    leaks = {("spn", a / 10, attack): 20.0 + a for a in (1, 2) for attack in ("dlg", "spn-aware")}
    (grid,) = read_material([sweep(tmp_path / "s", NONE | leaks)]).grids
    assert len(finished(grid, measure_of(grid))) == 5
    sections = {section.name: section for section in sweep_sections(grid, several=False)}
    assert set(sections) >= {"settings-compared", "ppc", "cap", "informed", "cells", "settings"}
    for chart in (chart for section in sections.values() for chart in section.charts):
        assert svg(chart).startswith("<svg ")
    assert sections["informed"].tables[0].rows[0][0] == "spn"
    assert "0.690" in sections["cap"].tables[0].rows[0]


def test_two_hundred_cells_stay_small(tmp_path):
    leaks = {("spn", a / 100, x): 20.0 for a in range(1, 51) for x in ("dlg", "spn-aware")}
    place = write_report([sweep(tmp_path / "s", NONE | leaks, seeds=2)])
    text = place.read_text("utf-8")
    assert len(text.encode()) < 1.5e6
    assert "202 of 202 cells" in text
    assert text.count("<svg role=") == 2  # one chart a batch size beside the trade-off


def test_an_unfinished_sweep_claims_nothing(tmp_path):
    folder = tmp_path / "s"
    SweepFolder(folder).write_results([{"defence": "spn", "attack": "dlg", "error": "Boom"}])
    material = read_material([folder])
    assert verdict_of_sweep(material.grids[0]).light == "grey"
    assert "Boom" in page_of(material)


def test_a_sweep_without_a_defence_says_so(tmp_path):
    material = read_material([sweep(tmp_path / "s", NONE)])
    assert verdict_of_sweep(material.grids[0]).light == "grey"
    assert "No defence was tried; without one an attack reached 35.0 dB." in page_of(material)
