"""The blocks of README and docs: what is typed there, and which pages begin in an empty folder."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
HOWTOS = sorted((ROOT / "docs" / "howto").glob("*.md"))
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
# Pages that begin in an empty folder: they write files with a title and run commands on them.
WORKED = [page.stem for page in PAGES if 'title="' in page.read_text("utf-8")]


def typed(page: Path) -> list[str]:
    """The commands of a page's console and bash blocks, without the words behind a #."""
    found = []
    for kind, _, block in FENCE.findall(page.read_text("utf-8")):
        text = re.sub(r"\\\n\s*", "", block)
        if kind == "console":
            found += [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        elif kind == "bash":
            found += [line for line in text.splitlines() if line]
    return [line.split("  #")[0].strip() for line in found]


def deployed(page: Path) -> list[str]:
    """Those that talk to a running deployment."""
    return [line for line in typed(page) if line.startswith("fedpriv deploy")]
