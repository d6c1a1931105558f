"""What a command says while somebody waits, and how it ends."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from fedpriv.scenario import builtin, from_tables, merged
from fedpriv.simulations import cli
from fedpriv.simulations.cli import sweep as command
from fedpriv.simulations.cli.ending import told_on
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.registries import registries
from fedpriv.simulations.sweep.tables import caps, markdown, notes, spelled


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def paper() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=200), text


def test_an_attack_says_how_far_it_is_and_how_long_it_takes():
    console, text = paper()
    clock = Clock()
    tell = told_on(console, clock)
    tell("dlg", 0, 4)
    for step in range(1, 41):  # one call on four victims, forty steps of a second
        clock.now = step
        if step < 40:
            tell("dlg", 4 * step / 40, 4)
    tell("dlg", 4, 4)
    lines = text.getvalue().splitlines()
    assert lines[0] == "dlg: 0 of 4 attacked" and lines[-1] == "dlg: 4 of 4 attacked"
    assert (
        "dlg: 25% of 4 attacked  30 s left" in lines or "dlg: 1 of 4 attacked  30 s left" in lines
    )
    assert 12 < len(lines) < 25  # one every other second, not one a step


def test_a_long_attack_is_told_about_while_it_goes_on(tmp_path, tiny):
    """A real attack, one call on all its victims: it says more than its beginning and its end."""
    from fedpriv.runfolder import RunFolder
    from fedpriv.simulations.pipeline import run_all

    told = []
    changes = {
        "training": {"batch-size": 1, "local-steps": 1},
        "attacks": [{"name": "adam+cosine", "steps": 60}],
    }
    scenario = from_tables(merged(tiny.plain(), changes))
    console, _ = paper()
    run_all(
        scenario,
        RunFolder(tmp_path / "R"),
        lambda: PlainLines(console),
        tell=lambda *news: told.append(news),
    )
    between = [done for _, done, total in told if 0 < done < total]
    assert len(between) > 3 and between == sorted(between)
    assert told[0][1] == 0 and told[-1][1] == told[-1][2]


def test_a_round_that_takes_long_says_who_has_answered():
    console, text = paper()
    clock = Clock()
    lines = PlainLines(console, clock)
    record = {"accuracy": 0.5, "loss": 1.0, "clients": 3, "asked": 3}
    lines.on_start(1, 2)
    for reply in range(3):
        clock.now += 4
        lines.on_reply(reply)
    lines.on_round({"round": 1, **record})
    clock.now += 9
    lines.on_reply(0)
    said = text.getvalue().splitlines()
    assert said[0] == "round 1/2 begins"
    assert said[1] == "round 1/2  2 replies"
    assert said[2].endswith("12 s left") and said[2].startswith("round 1/2  accuracy 50.0%")
    assert said[3].startswith("round 2/2  1 replies  ") and said[3].endswith("s left")


@pytest.mark.parametrize(
    ("minutes", "cores", "pays"),
    [(10.0, 4, True), (0.1, 4, False), (10.0, 1, False), (None, 4, True), (None, 1, False)],
)
def test_ray_is_started_where_it_saves_more_than_its_start(monkeypatch, minutes, cores, pays):
    monkeypatch.setattr(command.os, "cpu_count", lambda: cores)
    start = "fedpriv.simulations.federation.ray_start.start_seconds"
    monkeypatch.setattr(start, lambda: (60.0, "measured"))
    console, text = paper()
    monkeypatch.setattr(command, "err", console)
    assert command.ray_pays(minutes) is pays
    assert ("would not pay for Ray's start" in text.getvalue()) == (
        minutes is not None and not pays
    )


def cell(seed: int, value: float, **more: object) -> dict[str, object]:
    row = {"defence": "noise", "value": value, "attack": "dlg", "knows": "", "batch": 1}
    return {**row, "seed": seed, "relative-error": 0.5, "accuracy": 0.8, "m": 1.0, **more}


def test_a_figure_with_missing_cells_is_marked():
    rows = [cell(0, 0.1), cell(0, 0.2)]
    whole = caps(rows)
    assert "†" not in markdown(whole) and len(notes(whole)) == 1
    failed = {**cell(1, 0.2), "error": "no time"}
    for name in ("relative-error", "accuracy", "m"):
        del failed[name]
    table = caps([*rows, failed])
    assert all(spelled(row, "cap-reconstruction").endswith("†") for row in table)
    assert "† Cells are missing" in markdown(table)
    other = caps([*rows, {**failed, "defence": "clip"}])  # what another defence lacks
    assert "†" not in markdown(other)


@pytest.fixture
def fedpriv(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedpriv", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return SimpleNamespace(code=stop.value.code or 0, **capsys.readouterr()._asdict())

    return call


@pytest.fixture
def scenario(tmp_path, tiny):
    path = tmp_path / "two.toml"
    changes = {
        "training": {"batch-size": 1, "local-steps": 1},
        "keep-truth": True,
        "federation": {"rounds": 2},
        "attacks": [{"name": "linear", "rounds": "all", "victims": 3}],
    }
    text = from_tables(merged(tiny.plain(), changes)).toml()
    path.write_text(
        text + '[[variants]]\nname = "plain"\n[[variants]]\nname = "loud"\n'
        'plugins = [{ name = "noise", scale = 1.0 }]\n'
    )
    return path


def test_one_variant_ends_in_a_verdict_and_victims_count_all_rounds(fedpriv, scenario, tmp_path):
    place = tmp_path / "R"
    found = fedpriv("run", scenario, "--variant", "plain", "--out", place)
    assert found.code == 0 and (place / "rounds.jsonl").exists()
    assert not (place / "loud").exists() and not (place / "plain").exists()
    said = " ".join(found.out.split())
    assert "Leaks. A curious server got" in said or "Undecided. A curious server got" in said
    assert said.index("what leaked") < said.index("A curious server got") < said.index("report:")
    victims = {tuple(line.split(",")[1:3]) for line in rows(place)}
    assert len(victims) == 3  # in all, over two rounds of four clients
    again = fedpriv("attack", place, "--attack", "linear", "--victims", 5, "--out", tmp_path / "C")
    assert again.code == 0
    assert len({tuple(line.split(",")[1:3]) for line in rows(tmp_path / "C")}) == 5


def rows(folder):
    """Lines of scores.csv with run, round and node in front."""
    import pandas as pd

    table = pd.read_csv(folder / "scores.csv")
    return [f"x,{row['round']},{row['node']}" for _, row in table.iterrows()]


def test_what_is_no_variant_and_an_empty_name_are_mistakes(fedpriv, scenario, tmp_path):
    wrong = fedpriv("run", scenario, "--variant", "lod", "--out", tmp_path / "R")
    assert wrong.code == 2 and "Did you mean 'loud'" in " ".join(wrong.err.split())
    for words in (["run", ""], ["audit", ""], ["check", ""], ["sweep", ""]):
        empty = fedpriv(*words)
        assert empty.code == 2 and "Traceback" not in empty.err, words


def test_help_shows_defaults_and_ends_no_sentence_twice(fedpriv, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    names = [name for name in cli.command().commands if name != "deploy"]
    for name in names:
        said = fedpriv(name, "--help").out
        ends = [line.rstrip(" │") for line in said.splitlines()]
        assert not [line for line in ends if line.endswith(" .")], name
    assert "[default: 8765]" in fedpriv("watch", "--help").out


@pytest.mark.parametrize("columns", ["40", "80"])
def test_no_name_is_cut_in_a_pipe(fedpriv, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    whole = fedpriv("scenarios").out
    assert all(name in whole.split() for name in builtin())
    for kind, registry in registries().items():
        said = fedpriv("list", kind).out
        assert all(name in said.split() for name in registry), kind
        assert "…" not in said, kind
