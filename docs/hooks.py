"""Pages made from the code while the site is built: commands, names, files, equations and more."""

import ast
import csv
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).resolve().parent))
import manual
from manual import table

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "fedpriv": "the core: what was asked for, evidence, claims, codes, metrics, the page",
    "clients": "a message in, the plugins' hooks in order, a message out",
    "strategies": "the server: who is asked, what becomes of the replies",
    "attacks": "everything that turns evidence into claims",
    "simulations": "running, judging, sweeps, audits, deployment, the command line",
}
PAPERS = {
    "SPN": "Fan et al. 2020, secret polarization, PPC and CAP",
    "ATS": "Gao et al. 2021, searched augmentation",
    "ARS": "Chen et al. 2022, adversarial representation sharing",
    "RAN": "Liu et al. 2018, reconstructive adversarial network",
    "ARL": "Xiao et al. 2020, adversarial reconstruction learning",
}
NUMBER = r"[0-9]+(?:\.[0-9]+)*[a-z]?"
KIND = r"(?:eq\.|alg\.|sect\.|fig\.|tables?|theorem)"
PLACE = rf"{KIND}\s+{NUMBER}(?:(?:\s?[-–,]\s?| and ){NUMBER})*"
REFERENCE = re.compile(rf"\b({'|'.join(PAPERS)})\s+({PLACE}(?:[,;]\s+{PLACE})*)")
MEASURED = re.compile(r"<!-- measured: ([a-z0-9-]+) -->")
PAPER = re.compile(r"<!-- paper: ([A-Z]+) -->")
TERMS = "<!-- terms -->"


def on_files(files: Files, config: Any) -> Files:
    """Add the reference to the pages that are written by hand."""
    for name, text in {
        "scenarios": scenarios(),
        "api": api(),
        "files": files_by_room(),
        "equations": equations(),
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for name, text in manual.pages().items():  # whatever the folder holds
        if old := files.get_file_from_path(f"manual/{name}"):
            files.remove(old)
        files.append(File.generated(config, f"manual/{name}", content=text))
    return files


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """`<!-- measured: name -->` becomes the table docs/measured/name.csv, `<!-- terms -->` the keys
    of terms.toml, `<!-- paper: RAN -->` what was tested of a paper.
    """
    if TERMS in markdown:
        markdown = markdown.replace(TERMS, keys_of_terms())

    def found(match: re.Match[str]) -> str:
        path = Path(config.docs_dir) / "measured" / f"{match[1]}.csv"
        if not path.exists():
            return "*Not measured yet.*"
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        return table(head, rows)

    def tested(match: re.Match[str]) -> str:
        return tested_of(match[1], Path(config.docs_dir) / "measured")

    return PAPER.sub(tested, MEASURED.sub(found, markdown))


def tested_of(name: str, folder: Path) -> str:
    """The rows of papers.md about one paper that an experiment stands behind."""
    from fedpriv.simulations.reproduce.catalogue import PAPERS as TESTED
    from fedpriv.simulations.reproduce.page import HEAD, cells, measured

    (paper,) = [one for one in TESTED if one.name == name]
    rows = [
        cells(paper, item, rows, profile)
        for item in paper.items
        for profile, rows in measured(item, folder)
    ]
    done = [row for row in rows if row[4].startswith("**")]
    return table(HEAD, done) if done else "*Not measured yet.*"


def keys_of_terms() -> str:
    """Every key of terms.toml, its default and what it is."""
    from fedpriv.clients.protection.template import written
    from fedpriv.clients.protection.terms import keys

    rows = [
        (f"`{one.name.replace('_', '-')}`", f"`{written(one.default)}`", one.metadata["why"])
        for one in keys()
    ]
    return table(("key", "default", "what it is"), rows)


def scenarios() -> str:
    """The scenarios that ship with fedpriv, whole."""
    from fedpriv.scenario import builtin, tables_of

    parts = ["# Scenarios", ""]
    for name, path in builtin().items():
        tables = tables_of(name)
        paper = f" ({tables['paper']})" if tables.get("paper") else ""
        parts += [f"## {name}", "", f"{tables.get('summary', '')}{paper}", ""]
        parts += ["```toml", path.read_text("utf-8").strip(), "```", ""]
    return "\n".join(parts) + "\n"


def api() -> str:
    """The functions and classes meant for use from Python: those of `fedpriv.__all__`."""
    import fedpriv

    parts = ["# Python", "", "What is meant to be used from outside; everything else may change."]
    parts += ["", "```python", "from fedpriv import run, audit, attack, Curious, record_to", "```"]
    for name in fedpriv.__all__:
        thing = getattr(fedpriv, name)
        parts += ["", f"## fedpriv.{name}", "", *described(name, thing)]
        if inspect.isclass(thing):
            for inner, member in vars(thing).items():
                function = member.fget if isinstance(member, property) else member
                function = getattr(function, "__func__", function)
                if not inner.startswith("_") and inspect.isfunction(function):
                    parts += ["", f"### {name}.{inner}", "", *described(inner, function)]
    return "\n".join(parts) + "\n"


def described(name: str, thing: Any) -> list[str]:
    """Signature and docstring."""
    try:
        signature = str(inspect.signature(thing)).replace(" -> None", "")
    except ValueError:  # an exception class without a constructor of its own
        signature = "(message)"
    text = inspect.cleandoc(thing.__doc__ or "")
    return ["```python", f"{name}{signature}", "```", "", *as_markdown(text)]


def as_markdown(text: str) -> list[str]:
    """A docstring: its arguments as a list, its example as code."""
    lines, section = [], ""
    for line in text.splitlines():
        if line in ("Args:", "Returns:", "Example:"):
            section = line
            lines += [f"**{line[:-1]}**", ""]
            if section == "Example:":
                lines.append("```pycon")
        elif section == "Args:" and re.match(r"    [a-z]\S*(, [a-z_]+)*: ", line):
            named, _, what = line.strip().partition(": ")
            lines.append(f"- `{named}`: {what}")
        elif section == "Example:":
            lines.append(line.removeprefix("    "))
        else:
            lines.append(line.strip() if section == "Returns:" else line)
    return lines + (["```"] if section == "Example:" else [])


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every Python file of the product, by its path from the root."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def files_by_room() -> str:
    """The first paragraph of every module's docstring, by folder."""
    parts = ["# Which file owns what", ""]
    parts.append(
        "Each folder is a room with one question, each file has one idea. This is the beginning"
    )
    parts.append("of every file. Folders are imported as `fedpriv.clients`, `fedpriv.attacks` …")
    folder = ""
    rows: dict[str, list[tuple[str, str]]] = {}
    for path, tree in modules():
        first = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
        folder, _, name = path.rpartition("/")
        if first:
            rows.setdefault(folder, []).append((f"`{name}`", first))
    for folder, files in rows.items():
        about = f"\n{ROOMS[folder].capitalize()}.\n" if folder in ROOMS else ""
        parts += ["", f"## {folder}/", about, table(("file", "what it owns"), files)]
    return "\n".join(parts) + "\n"


def equations() -> str:
    """Where docstrings name a place in a paper, by paper."""
    found: dict[str, dict[str, set[str]]] = {paper: {} for paper in PAPERS}
    for path, tree in modules():
        for where, text in texts(tree):
            for paper, several in REFERENCE.findall(text):
                shown = f"`{path}`" + (f" `{where}`" if where else "")
                for place in re.findall(PLACE, several):
                    found[paper].setdefault(" ".join(place.split()), set()).add(shown)
    parts = ["# Where a paper's equations are", ""]
    parts.append(
        "Docstrings name the place in the paper that they follow. This page collects them."
    )
    for paper, places in found.items():
        rows = [(place, ", ".join(sorted(places[place]))) for place in sorted(places, key=ordered)]
        parts += ["", f"## {paper}", "", f"{PAPERS[paper]}.", "", table(("place", "code"), rows)]
    return "\n".join(parts) + "\n"


def ordered(place: str) -> tuple[str, list[int]]:
    """Equations by number, then figures, and so on."""
    return place.partition(" ")[0], [int(number) for number in re.findall(r"\d+", place)]


def texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Docstrings by the name of their class or function."""
    yield "", ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""
