"""The manual says all there is, and says it as the code does today."""

import csv
import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

from fedpriv import columns, errors
from fedpriv.catalogue import METRICS
from fedpriv.describing import options_of
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.scenario import SECTIONS, Scenario
from fedpriv.simulations import api, cli
from fedpriv.simulations.cards import WORDS, card_of
from fedpriv.simulations.registries import registries
from fedpriv.sweepfolder import SweepFolder

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("manual", ROOT / "docs" / "manual.py")
assert spec is not None and spec.loader is not None
manual = importlib.util.module_from_spec(spec)
spec.loader.exec_module(manual)

PARTS = [(kind, name) for kind, table in registries().items() for name in table if table.ours(name)]


def test_the_pages_in_the_repository_are_those_of_the_code():
    kept = {path.name: path.read_text("utf-8") for path in manual.FOLDER.glob("*.md")}
    made = manual.pages()
    stale = sorted(name for name in {*kept, *made} if kept.get(name) != made.get(name))
    assert not stale, f"run `make manual`: {stale}"


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_every_option_of_every_part_is_explained(kind, name):
    card = card_of(kind, name)
    assert card.summary
    assert not [one.name for one in card.options if not one.meaning.endswith(".")]
    assert set(card.facts) <= {*WORDS.values()}


@pytest.mark.parametrize("name", [name for name, section in SECTIONS.items() if section.of])
def test_every_key_of_a_section_is_explained_and_its_example_is_good(name):
    section = SECTIONS[name]
    for one in options_of(section.of):
        assert one.meaning.endswith(".") and one.example, one.name
        needed = {"name": "x"} if "name" in {o.name for o in options_of(section.of)} else {}
        value = tomllib.loads(f"value = {one.example}")["value"]
        table = needed | {one.name: value}
        made = from_tables({name: [table] if section.many else table})
        found = getattr(made, name)
        found = getattr(found[0] if section.many else found, one.name.replace("-", "_"))
        assert json.loads(json.dumps(found, default=str)) == value


def test_every_other_section_has_an_example_that_is_good():
    free = {name: one for name, one in SECTIONS.items() if one.of is None}
    assert all(from_tables(tomllib.loads(one.example)) for one in free.values())
    known = {one.name for one in options_of(Scenario)}
    top = known - SECTIONS.keys()
    assert all(one.meaning and one.example for one in options_of(Scenario) if one.name in top)


def test_every_command_and_argument_is_explained():
    commands = dict(manual.below("fedpriv", cli.command()))
    assert len(commands) > 15
    for name, command in commands.items():
        assert command.help, name
        for parameter in command.params:
            if parameter.name not in manual.GIVE_UP:
                said = parameter.help or ""
                assert said.endswith((".", "?")) and not said.endswith(" ."), (name, parameter.name)
                assert "<" not in said, f"{name}: '{said}' loses <…> on the screen"


def test_every_exit_code_is_explained():
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.exit_code for one in kinds if issubclass(one, errors.FedprivError)}
    assert codes | {0} == errors.EXIT_CODES.keys()


@pytest.mark.parametrize("folder", [RunFolder, SweepFolder])
def test_every_file_is_explained(folder):
    assert all(manual.described(folder, Path("R")).values())


TINY = {
    "name": "tiny",
    "data": {"name": "synthetic", "options": {"train": 64, "test": 32}, "reserve": 16},
    "model": {"name": "mlp"},
    "training": {"local-steps": 1, "batch-size": 1, "holdout": 0.2},
    "federation": {"clients": 3, "rounds": 1, "backend": "inline"},
}
CODES = {
    "name": "codes",
    "data": {"name": "synthetic", "options": {"train": 96, "test": 32}},
    "federation": {"clients": 3, "rounds": 1, "strategy": "representation", "backend": "inline"},
    "representation": {"encoder-epochs": 1, "decoder-epochs": 1, "task-epochs": 1, "victims": 4},
    "plugins": [{"name": "noisy"}],
    "attacks": [{"name": "decoder"}, {"name": "attribute", "attribute": "label"}],
}
ATTACKS = [{"name": name} for name in ("linear", "member-loss")]


CODES |= {"variants": [{"name": "shared"}, {"name": "again"}]}
SWEPT = TINY | {
    "sweep": {"attacks": ["linear"], "seeds": [0], "victims": 2},
    "defences": [
        {"name": "noise", "plugins": [{"name": "noise"}], "vary": "noise.scale", "values": [0.1]}
    ],
}
TABLES = {
    "scores.csv": columns.HEAD | columns.TAIL,
    "summary.csv": columns.SUMMARY,
    "partition.csv": columns.PARTITION,
    "pareto.csv": columns.PARETO,
    "results.csv": columns.RESULTS,
    "cap.csv": columns.CAP,
}


@pytest.mark.parametrize(
    ("tables", "written"),
    [
        (TINY | {"attacks": ATTACKS}, {"scores.csv", "partition.csv"}),
        (TINY | {"plugins": [{"name": "dp", "epsilon": 9}]}, {"partition.csv"}),
        (CODES, {"scores.csv", "partition.csv", "summary.csv", "pareto.csv"}),
        (SWEPT, {"scores.csv", "results.csv", "cap.csv"}),
    ],
    ids=["updates", "dp", "codes", "sweep"],
)
def test_every_file_and_column_of_a_run_is_explained(tmp_path, tables, written):
    root, swept = tmp_path / "R", "sweep" in tables
    if swept:
        api.sweep(from_tables(tables), out=root, workers=1)
    else:
        api.run(from_tables(tables), out=root, quiet=True)
    known = [
        line.strip("`")
        for folder in (RunFolder, *([SweepFolder] if swept else []))
        for line in manual.described(folder, Path("R"))
    ]
    found = set()
    for path in root.rglob("*"):
        place = re.sub("^(shared|again)/", "", path.relative_to(root).as_posix())  # of variants
        inside = any(place.startswith(one) for one in known if one.endswith("/"))
        assert path.is_dir() or place in known or inside, place
        if place in TABLES:
            found.add(place)
            with path.open(newline="") as lines:
                head = next(csv.reader(lines))
            told = TABLES[place]
            assert not [name for name in head if not columns.explained(name, told, METRICS)], place
        elif place == "rounds.jsonl":
            rounds = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            keys = {key for line in rounds for key in line}
            assert not [key for key in keys if not columns.explained(key, columns.ROUNDS, ())]
    assert found == written
