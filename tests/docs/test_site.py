"""The docs build without a warning, from the code as it is, and read without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(https?:)?//', re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.slow
def test_every_page_is_there_and_loads_nothing_from_outside(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert not LOADED.search(page.read_text("utf-8")), page


@pytest.mark.slow
def test_the_reference_is_that_of_the_code(site):
    commands = (site / "manual" / "commands.html").read_text("utf-8")
    assert "fedpriv audit" in commands and "--fail-if" in commands
    plugins = (site / "manual" / "plugins.html").read_text("utf-8")
    assert "noise-multiplier" in plugins
    api = (site / "reference" / "api.html").read_text("utf-8")
    assert "fedpriv.run" in api and "record_to" in api
    files = (site / "reference" / "files.html").read_text("utf-8")
    assert all(f"<code>{name}</code>" in files for name in ("plugin.py", "claims.py", "gate.py"))
    equations = (site / "reference" / "equations.html").read_text("utf-8")
    assert "linear.py" in equations and "theorem 2.2" in equations
    words = (site / "words.html").read_text("utf-8")
    assert all(f">{word}<" in words for word in ("evidence", "claim", "blind guess", "keep-truth"))


# Prose, code with all its colours, commands and what they print, and the widest tables.
LOOKED_AT = ("index", "howto/first-scenario", "howto/ci", "howto/watch", "defences/dp", "papers")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pages_are_for_everybody(site, page):
    """On a wide light screen and on a dark phone: nothing serious for axe, nothing cut off."""
    for width, dark in ((1280, False), (390, True)):
        page.size(width, dark=dark)
        for name in LOOKED_AT:
            page.open((site / f"{name}.html").as_uri())
            assert page.serious() == [], (name, width)
            assert page.overflow() <= 0 and page.broken_images() == 0, (name, width)
            assert page.complaints == [], (name, width)


def test_no_page_names_what_was_renamed():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    gone = ("representation.attacks", "audit = true", "audit.json", "preflight.json", "[default:")
    for page in pages:
        text = page.read_text("utf-8")
        assert not [word for word in gone if word in text], page


def test_nothing_is_installed_from_an_index_that_has_no_fedpriv():
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.yaml")]:
        assert not re.search(r"pip install fedpriv\b(?! @)", page.read_text("utf-8")), page
