"""What README and docs print can be typed, and the worked pages work as printed."""

import re
import shlex
import subprocess
import sys

import pytest
from pages import FENCE, PAGES, ROOT, WORKED, typed

from fedpriv.simulations import cli

THOROUGH = "<!-- blocks: thorough -->"

COMMANDS = sorted(
    {
        part.strip().removesuffix(" &")
        for page in PAGES
        for line in typed(page)
        for part in re.split(r"&&|\|\||;(?=\s)", line)
        if part.strip().startswith("fedpriv ")
    }
)


def test_there_are_commands():
    assert len(COMMANDS) > 30


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_that_is_printed_can_be_typed(line):
    words = [word for word in shlex.split(line, comments=True)[1:] if word not in ("…", "\\")]
    found = cli.command()
    while words and words[0] in getattr(found, "commands", {}):
        found = found.commands[words.pop(0)]
    if words and words[0].startswith("--") and hasattr(found, "commands"):
        assert any(words[0] in parameter.opts for parameter in found.params), line
    else:
        found.make_context("fedpriv", words, resilient_parsing="--help" in words)


def worked(name: str) -> object:
    text = (ROOT / "docs" / "howto" / f"{name}.md").read_text("utf-8")
    return pytest.param(name, marks=pytest.mark.thorough) if THOROUGH in text else name


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [worked(name) for name in WORKED])
def test_a_worked_page_works_as_printed(name, tmp_path, monkeypatch):
    """Files with a title are written, commands are run, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # for the workers of a sweep
    page = ROOT / "docs" / "howto" / f"{name}.md"
    for kind, title, text in FENCE.findall(page.read_text("utf-8")):
        if title:
            (tmp_path / title).write_text(text, "utf-8")
        elif kind == "console":
            for line in text.splitlines():
                assert line.startswith("$ "), line
                assert ended(line[2:], monkeypatch) == 0, line


@pytest.mark.slow
def test_the_parts_of_own_parts_work(tmp_path, monkeypatch):
    """All code of the page in one file, run by the scenario at its top."""
    text = (ROOT / "docs" / "howto" / "own-parts.md").read_text("utf-8")
    blocks = [(kind, block) for kind, _, block in FENCE.findall(text)]
    code = "\n".join(block for kind, block in blocks if kind == "python")
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "parts.py").write_text(code, "utf-8")
    (tmp_path / "s.toml").write_text(next(block for kind, block in blocks if kind == "toml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert ended("fedpriv list attacks my_project.parts:MeanOfOwn", monkeypatch) == 0
    assert ended("fedpriv check s.toml", monkeypatch) == 0
    assert ended("fedpriv run s.toml --out R", monkeypatch) == 1  # its gate: a guess was too good
    assert "largest" in (tmp_path / "R" / "scores.csv").read_text("utf-8")


def ended(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a line: fedpriv in this process, which has imported all of it already."""
    command, _, otherwise = line.partition(" || ")
    words = shlex.split(command)
    if words[0] != "fedpriv":
        return subprocess.run(words, check=False).returncode
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return 0 if otherwise == "true" else int(stop.value.code or 0)
