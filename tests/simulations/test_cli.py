"""The command line: exit codes, one message for what is wrong, machine-readable results."""

import json
import sys

import pytest

from fedpriv.scenario import builtin
from fedpriv.simulations.cli import main


@pytest.fixture
def fedpriv(monkeypatch, capsys):
    """Run `fedpriv …` in this process: exit code, standard output, standard error."""

    def call(*arguments):
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
def file(tmp_path, tiny):
    path = tmp_path / "tiny.toml"
    path.write_text(tiny.toml())
    return path


def test_run_prints_a_table_and_the_folder(fedpriv, file, tmp_path):
    code, out, err = fedpriv("run", file, "--out", tmp_path / "R")
    assert code == 0
    assert "accuracy" in out
    assert str(tmp_path / "R") in out.replace("\n", "")
    assert "round 3/3" in err


def test_json_goes_to_standard_output_alone(fedpriv, file, tmp_path):
    code, out, _ = fedpriv("run", file, "--out", tmp_path / "R", "--json")
    assert code == 0
    assert len(json.loads(out)["rows"][""]["rounds"]) == 3


def test_a_finished_folder_is_resumed_from_its_own_scenario(fedpriv, file, tmp_path):
    fedpriv("run", file, "--out", tmp_path / "R")
    assert fedpriv("run", "--resume", "--out", tmp_path / "R")[0] == 0


@pytest.mark.parametrize("command", ["run", "audit"])
@pytest.mark.parametrize("made", [True, False])
def test_a_folder_without_a_run_is_not_resumed(fedpriv, file, tmp_path, command, made):
    if made:
        (tmp_path / "R").mkdir()
    code, _, err = fedpriv(command, file, "--resume", "--out", tmp_path / "R")
    assert code == 2 and "leave --resume out" in " ".join(err.split())
    assert not made or not any((tmp_path / "R").iterdir())


def test_variants_get_a_folder_each(fedpriv, tmp_path, tiny):
    path = tmp_path / "two.toml"
    path.write_text(
        tiny.toml()
        + '[[variants]]\nname = "alone"\nset = {"federation.strategy" = "standalone"}\n'
        + '[[variants]]\nname = "together"\n'
    )
    code, out, _ = fedpriv("run", path, "--out", tmp_path / "R")
    assert code == 0
    assert "alone" in out and "together" in out
    assert (tmp_path / "R" / "alone" / "rounds.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "quickstrat"], "Did you mean 'quickstart'"),
        (["run", "quickstart", "--set", "training.lrr=1"], "Did you mean 'lr'"),
        (["run", "quickstart", "--set", "model.name=lenett"], "Did you mean 'lenet'"),
        (["run", "quickstart", "--set", "data.name=mnist5k"], "Did you mean 'mnist-5k'"),
        (["run", "quickstart", "--set", "federation.strategy=fedavgg"], "Did you mean 'fedavg'"),
        (["run", "quickstart", "--set", "federation.clients=999999"], "clients"),
        (["run", "quickstart", "--set", "data.name=cifar10"], "FEDPRIV_DATA"),
        (["run", "--resume"], "--resume needs --out"),
        (["run", "quickstart", "--profile", "none"], "no profile"),
    ],
)
def test_bad_input_is_exit_code_two_and_one_message(fedpriv, tmp_path, arguments, words):
    out = [] if "--resume" in arguments else ["--out", tmp_path / "R"]
    code, _, err = fedpriv(*arguments, *out)
    assert code == 2
    assert words in " ".join(err.split())
    assert "Traceback" not in err


def test_a_folder_in_the_way_is_bad_input(fedpriv, file, tmp_path):
    fedpriv("run", file, "--out", tmp_path / "R")
    code, _, err = fedpriv("run", file, "--out", tmp_path / "R")
    assert code == 2
    assert "--resume" in err


def test_work_that_fails_is_exit_code_three(fedpriv, file, tmp_path):
    code, _, err = fedpriv("run", file, "--set", "training.lr=900", "--out", tmp_path / "R")
    assert code == 3
    assert "usable answer" in " ".join(err.split())


def test_scenarios_are_listed(fedpriv):
    code, out, _ = fedpriv("scenarios")
    assert code == 0
    assert all(name[:12] in out for name in builtin())


@pytest.mark.parametrize("kind", ["plugins", "attacks", "strategies", "models", "data", "metrics"])
def test_everything_with_a_name_is_listed(fedpriv, kind):
    code, out, _ = fedpriv("list", kind)
    assert code == 0
    assert out.strip()


def test_an_interrupted_sweep_names_the_command_that_goes_on_with_it(
    fedpriv, tmp_path, monkeypatch
):
    def interrupted(*arguments, **options):
        return {"rows": [], "cap": [], "scores": [], "report": "", "partial": True}

    monkeypatch.setattr("fedpriv.simulations.sweep.sweep.sweep", interrupted)
    given = ("--set", "sweep.victims=4", "--set", "seed=8")  # of a scenario that needs no files
    code, _, err = fedpriv("sweep", "dp-epsilon", *given, "--out", tmp_path / "S")
    assert code == 130
    assert f"fedpriv sweep dp-epsilon {' '.join(given)} --resume --out {tmp_path / 'S'}" in err
