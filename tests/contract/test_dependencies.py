"""Every imported package is declared: what another package brings along may go away with it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PRODUCT = ("fedpriv", "clients", "strategies", "attacks", "simulations")
AROUND = ("tests", "benchmarks", "docs")
ELSEWHERE = {"benchmarks/_pfl.py": {"pfl"}}  # it runs in an environment of its own


def names_in(requirements: list[str]) -> set[str]:
    """`flwr[simulation]==1.39.*` is `flwr`."""
    found = (re.match(r"[A-Za-z0-9._-]+", text) for text in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


ALWAYS = names_in(PROJECT["dependencies"])
EXTRAS = {key: names_in(value) for key, value in PROJECT["optional-dependencies"].items()}


def roots(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.partition(".")[0]]
    return []


def at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: not the insides of functions, nor what is for types."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not for_types and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from at_once(node)


@cache
def owners() -> dict[str, set[str]]:
    found = packages_distributions()
    return {
        name: {re.sub(r"[-_.]+", "-", one).lower() for one in dists}
        for name, dists in found.items()
    }


def undeclared(nodes: Iterator[ast.AST], declared: set[str], own: set[str]) -> set[str]:
    """The imported packages that no declared distribution brings."""
    imported = {root for node in nodes for root in roots(node)}
    foreign = imported - own - {"fedpriv"} - sys.stdlib_module_names
    return {name for name in foreign if not owners().get(name, set()) & declared}


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("folder", PRODUCT)
def test_the_product_declares_what_it_imports(folder):
    lazily = ALWAYS | EXTRAS["export"] | EXTRAS["tsne"]
    missing = {}
    for path in files(folder):
        tree = ast.parse(path.read_text("utf-8"))
        found = undeclared(at_once(tree), ALWAYS, set())
        found |= undeclared(ast.walk(tree), lazily, set())
        if found:
            missing[str(path.relative_to(ROOT))] = found
    assert not missing, "add these to `dependencies` in pyproject.toml, then `make lock`"


def test_tests_benchmarks_and_docs_declare_what_they_import():
    declared = ALWAYS.union(*EXTRAS.values())
    own = {name for path in files(*AROUND) for name in (path.stem, path.parent.name)}
    missing = {
        str(path.relative_to(ROOT)): found
        for path in files(*AROUND)
        if (found := undeclared(ast.walk(ast.parse(path.read_text("utf-8"))), declared, own))
    }
    assert missing == ELSEWHERE, "add these to an extra in pyproject.toml, then `make lock`"


def test_an_import_that_nobody_declares_is_found():
    tree = ast.parse("import torch, yaml\ndef later():\n    from google.protobuf import message")
    assert undeclared(at_once(tree), {"torch"}, set()) == {"yaml"}
    assert undeclared(ast.walk(tree), {"torch", "pyyaml"}, set()) == {"google"}
    assert undeclared(ast.walk(tree), {"torch", "pyyaml", "protobuf"}, set()) == set()
