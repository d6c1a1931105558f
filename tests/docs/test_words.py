"""Sentences that people who are new here have to understand."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from fedpriv.clients.catalogue import PLUGINS
from fedpriv.scenario import from_tables

ROOT = Path(__file__).parents[2]
DEFENCES = [
    page for page in sorted((ROOT / "docs" / "defences").glob("*.md")) if page.stem != "index"
]
JARGON = ("rank one", "spectrum", "the head's", "logits", "cosine attack")


def findings() -> list[str]:
    """The text of every finding of preflight, as it stands in the code."""
    texts = []
    for path in sorted((ROOT / "attacks" / "preflight").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                parts = [part for given in node.args[2:] for part in ast.walk(given)]
                said = [part.value for part in parts if isinstance(part, ast.Constant)]
                texts.append("".join(map(str, said)))
    return texts


def test_findings_are_said_without_jargon():
    texts = findings()
    assert len(texts) > 20
    assert not [(word, text) for text in texts for word in JARGON if word in text]


def test_readme_says_what_is_installed():
    size = re.search(r"about (\d+) GB", (ROOT / "Makefile").read_text("utf-8"))
    assert size and f"about {size[1]} GB of disk" in (ROOT / "README.md").read_text("utf-8")


def test_what_a_table_measures_stands_among_the_words():
    words = (ROOT / "docs" / "words.md").read_text("utf-8")
    for word in ("PSNR", "SSIM", "FPR", "AUC", "member", "owner", "blind guess", "ε", "PPC", "CAP"):
        assert f"| {word} |" in words, word


@pytest.mark.parametrize("page", DEFENCES, ids=lambda page: page.stem)
def test_a_defence_says_when_to_use_it_and_has_an_example(page):
    """Before its equation, and so that the example can be read as a part of a scenario."""
    text = page.read_text("utf-8")
    first = text[: text.find("```text")] if "```text" in text else text
    assert "**When to use it**" in first
    blocks = re.findall(r"^```toml\n(.*?)^```$", text, re.M | re.S)
    examples = [tomllib.loads(block) for block in blocks]
    named = {one["name"] for each in examples for one in each.get("plugins", [])}
    assert examples or "```console" in text
    assert all(name in PLUGINS for name in named)
    assert all(from_tables(each) for each in examples)
