"""For whole commands: the command line, Ray's tasks in this process, tables of a page."""

import sys
from contextlib import nullcontext
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import pytest

from fedpriv.simulations.cli import main
from fedpriv.simulations.registries import registries


@pytest.fixture
def fedpriv(monkeypatch, capsys):
    """Run `fedpriv …` in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setenv("COLUMNS", "250")
        monkeypatch.setattr(sys, "argv", ["fedpriv", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def tasks_here(monkeypatch):
    """Ray's tasks are done in this process, one after the other, in the order they are given."""

    def remote(**resources):
        def task(work):
            def start(*given):
                work(*given)
                return object()

            return SimpleNamespace(remote=start)

        return task

    ray = ModuleType("ray")
    ray.remote, ray.get = remote, lambda reference: None
    ray.wait = lambda references, num_returns, timeout: (references[:1], references[1:])
    ray.is_initialized = lambda: True
    ray.get_gpu_ids = list
    ray.exceptions = SimpleNamespace(RayError=RuntimeError)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr("fedpriv.simulations.sweep.sweep.cluster", lambda *about: nullcontext())


@pytest.fixture
def somebody(tmp_path, monkeypatch):
    """Write somebody else's package `name` as one file for each part, with entry points by group.

    The distribution is one folder on sys.path, as pip would have installed it.
    """
    folder = tmp_path / "site-packages"
    written = []

    def forget():
        for registry in registries().values():
            registry.__dict__.pop("_points", None)

    def install(name, files, points=None):
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        for module, text in files.items():
            (package / f"{module}.py").write_text(text)
        about = folder / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [
            line
            for group, rows in (points or {}).items()
            for line in (f"[fedpriv.{group}]", *(f"{key} = {path}" for key, path in rows.items()))
        ]
        (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
        written.append(name)
        monkeypatch.syspath_prepend(str(folder))
        forget()

    yield install
    for module in [one for one in sys.modules if one.partition(".")[0] in written]:
        del sys.modules[module]
    monkeypatch.undo()
    forget()


class _Tables(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.rows, self.caption, self.inside = {}, [], "", ""

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.rows, self.caption = [], ""
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = "cell"
        elif tag == "caption":
            self.inside = "caption"

    def handle_endtag(self, tag):
        if tag in ("td", "th", "caption"):
            self.inside = ""
        elif tag == "table":
            self.found[self.caption.strip()] = self.rows

    def handle_data(self, data):
        if self.inside == "cell":
            self.rows[-1][-1] += data.strip()
        elif self.inside == "caption":
            self.caption += data


@pytest.fixture
def tables_on():
    """The tables of a page by caption, each a list of rows; the first row is the head."""

    def read(path):
        parser = _Tables()
        parser.feed(path.read_text("utf-8"))
        return parser.found

    return read


@pytest.fixture
def file(tmp_path):
    """Write a scenario's tables as a TOML file: `file(UPDATES, attacks=[…])`."""
    from fedpriv.scenario import from_tables, merged

    def write(tables, **changed):
        path = tmp_path / f"{tables['name']}.toml"
        path.write_text(from_tables(merged(tables, changed)).toml())
        return path

    return write
