"""Every module of the product is used by the product: none is there for the tests alone."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("clients", "strategies", "attacks", "simulations")
NAME = re.compile(r"fedpriv(?:\.\w+)+")
# Written and tested, but no command reaches them yet: none, and none may join.
EXCEPTIONS: set[str] = set()


def modules() -> dict[str, Path]:
    """Every module of the product by its dotted name; a package is its `__init__`."""
    found = {}
    for part in ("", *PARTS):
        folder = ROOT / (part or "fedpriv")
        for path in sorted(folder.rglob("*.py")):
            inner = path.relative_to(folder).with_suffix("").parts
            inner = inner[:-1] if inner[-1] == "__init__" else inner
            found[".".join(filter(None, ("fedpriv", part, *inner)))] = path
    return found


def named(tree: ast.AST, package: str) -> Iterator[str]:
    """What a module imports, wherever in it, and the names of modules that it has as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            start = ".".join(filter(None, (*(above if node.level else ()), node.module)))
            yield start
            yield from (f"{start}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def with_parents(name: str) -> Iterator[str]:
    """Importing a.b.c runs a, a.b and a.b.c."""
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def reached(table: Mapping[str, Path], starts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = [name for start in starts for name in with_parents(start)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in table:
            continue
        found.add(name)
        path = table[name]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for other in named(ast.parse(path.read_text("utf-8")), package):
            waiting += with_parents(other)
    return found


def entry_points() -> set[str]:
    """Where people, Flower, Docker and the docs come in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = [project["project"].get("scripts", {}), project["tool"]["flwr"]["app"]["components"]]
    groups += project["project"].get("entry-points", {}).values()
    starts = {target.partition(":")[0] for group in groups for target in group.values()}
    for file in ("docker-compose.yml", "Dockerfile", "Makefile"):
        starts |= set(NAME.findall((ROOT / file).read_text("utf-8")))
    starts |= set(named(ast.parse((ROOT / "docs" / "hooks.py").read_text("utf-8")), ""))
    return starts | {"fedpriv", "fedpriv.__main__"}


def test_every_module_is_reached_from_an_entry_point():
    table = modules()
    folders = {name.rpartition(".")[0] for name in EXCEPTIONS}
    orphans = set(table) - reached(table, entry_points() | folders)
    assert orphans == EXCEPTIONS, (
        f"only tests import {sorted(orphans - EXCEPTIONS)}: use or delete them; "
        f"no exceptions any more: {sorted(EXCEPTIONS - orphans)}"
    )


def test_the_entry_points_are_those_that_we_know():
    known = {
        "fedpriv.clients.app",
        "fedpriv.clients.protection.executor",
        "fedpriv.simulations.cli",
        "fedpriv.simulations.deploy.keys",
        "fedpriv.simulations.serverapp",
    }
    assert known <= entry_points() & set(modules())


def test_a_module_that_nobody_imports_is_found(tmp_path):
    sources = {
        "fedpriv": "",
        "fedpriv.start": "def late():\n    from fedpriv.parts import used",
        "fedpriv.parts": "from . import near",
        "fedpriv.parts.used": "RUN = ['-m', 'fedpriv.parts.started']",
        "fedpriv.parts.near": "",
        "fedpriv.parts.started": "",
        "fedpriv.parts.alone": "import fedpriv.start",
    }
    table = {}
    for name, source in sources.items():
        folder = tmp_path / name
        folder.mkdir()
        table[name] = folder / ("__init__.py" if name in ("fedpriv", "fedpriv.parts") else "m.py")
        table[name].write_text(source)
    assert set(table) - reached(table, ["fedpriv.start"]) == {"fedpriv.parts.alone"}
