"""Pages as a reader's browser sees them; needs Chromium, so it is no part of the quick tests."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fedpriv.report.page import write_report
from fedpriv.scenario import from_tables
from fedpriv.simulations.api import run

SCENARIO = {
    "name": "seen",
    "seed": 3,
    "data": {"name": "mnist-5k", "limit": 400},
    "training": {"lr": 0.1, "batch-size": 1, "local-steps": 1},
    "federation": {"clients": 4, "rounds": 2, "backend": "inline"},
    "attacks": [{"name": "quick", "tv": 0.01, "steps": 60, "rounds": "first"}],
}

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "report.py"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def charts(page) -> int:
    """How many charts are there, drawn, before anybody scrolls or a script runs."""
    return page.run(
        "document.querySelectorAll('.chart svg path').length && "
        "document.querySelectorAll('.chart svg').length"
    )


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_report_opens_clean(page, tmp_path, width, dark):
    result = run(from_tables(SCENARIO), out=tmp_path / "run", quiet=True)
    page.size(width, dark=dark)
    page.open(result.report.as_uri())
    assert charts(page) == 2
    assert page.complaints == []
    outside = [url for url in page.requests if not url.startswith(("data:", "file:", "blob:"))]
    assert outside == []
    assert page.run("document.images.length") >= 12
    assert page.broken_images() == 0
    assert page.overflow() <= 0
    assert page.serious() == []


FIRST = ".verdict, .verdict .word, .verdict .worst img, .kinds li, .facts section, .facts pre"


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)]
)
def test_the_first_screen_of_an_audit(page, make_audit, width, dark):
    """On a wide screen all of it is there before anybody scrolls; a phone shows the verdict."""
    asked = [{}, {"claim": "labels", "metric": "label-hit", "bound": None, "word": "holds"}]
    page.size(width, dark=dark)
    page.open(write_report([make_audit(asked=asked).path]).as_uri())
    ends = f"[...document.querySelectorAll('{FIRST}')].map(e => e.getBoundingClientRect().bottom)"
    found = json.loads(page.run(f"JSON.stringify({ends})"))
    assert len(found) >= 2 + 2 + 3 + 3 + 1
    assert (max(found) if width > 600 else found[1]) < 900
    words = page.run("[...document.querySelectorAll('.kinds .word')].map(e => e.innerText).join()")
    assert words == "Leaks,Holds,Not tested"
    assert "fedpriv audit plain" in page.run("document.querySelector('.facts').innerText")
    assert page.run("document.querySelectorAll('.scale img').length") == 6
    assert page.broken_images() == 0 and page.overflow() <= 0
    assert page.serious() == [] and page.complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_a_sweep_has_its_charts_at_once(page, tmp_path, width):
    two_hundred_cells = runpy.run_path(str(BENCHMARK))["sweep"]
    place = write_report([two_hundred_cells(tmp_path)])
    page.size(width)
    page.open(place.as_uri())
    assert charts(page) == 2
    assert page.complaints == []
    assert page.overflow() <= 0
    assert page.serious() == []


def test_a_page_that_is_printed_at_once_has_all_its_charts(page, tmp_path):
    """No chart and no table is wider than A4 paper, about 718 pixels between its margins."""
    two_hundred_cells = runpy.run_path(str(BENCHMARK))["sweep"]
    page.size(1280)
    page.open(write_report([two_hundred_cells(tmp_path)]).as_uri())
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    page.size(718)
    page.call("Emulation.setEmulatedMedia", media="print")
    widths = "[...document.querySelectorAll('.chart svg, table')].map(e => e.clientWidth)"
    assert charts(page) == 2
    assert max(json.loads(page.run(f"JSON.stringify({widths})"))) <= 718
    assert page.overflow() <= 0 and page.complaints == []


def test_a_report_reads_without_scripts(page, tmp_path):
    result = run(from_tables(SCENARIO), out=tmp_path / "run", quiet=True)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(result.report.as_uri())
    text = page.run("document.body.innerText")
    assert "What the server could see" in text and "The same numbers as a table" in text
    assert 'class="chart scroll"' in result.report.read_text("utf-8")


def test_the_live_view_follows_a_real_run(page, tmp_path):
    place = tmp_path / "live"
    tables = {**SCENARIO, "federation": {**SCENARIO["federation"], "rounds": 40}}
    scenario = tmp_path / "live.toml"
    scenario.write_text(from_tables(tables).toml())
    command = [sys.executable, "-m", "fedpriv"]
    place.mkdir()
    view = subprocess.Popen(
        [*command, "watch", str(place), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    training = None
    try:
        assert view.stdout is not None
        found = re.match(r"(http://127\.0\.0\.1:\d+/)", view.stdout.readline())
        assert found
        page.size(1280)
        page.open(found[1])
        page.until("document.getElementById('status').textContent.includes('waiting')")
        training = subprocess.Popen(
            [*command, "run", str(scenario), "--out", str(place)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        page.until("document.querySelector('progress')?.value > 0", 300)
        seen = page.run("document.querySelector('progress').value")
        page.until(f"document.querySelector('progress').value > {seen}", 300)
        page.until("document.querySelectorAll('.gallery img').length >= 4", 600)
        page.until("[...document.images].every(i => i.complete)")
        assert page.broken_images() == 0
        assert page.overflow() <= 0
        assert page.serious() == []
        assert page.complaints == []
        for path in (
            "..%2f..%2fetc%2fpasswd",
            "live/..%2f..%2fscenario.toml",
            "live/truth/1-0.npz",
        ):
            assert page.run(f"fetch('/picture/{path}').then(r => r.status)") == 404
        assert training.wait(600) == 0
    finally:
        for process in (training, view):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(60)
