"""Defects that users met before there was one road from evidence to verdict."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from worlds import CODES, UPDATES

import fedpriv as package
from fedpriv.catalogue import METRICS
from fedpriv.errors import BadInput, BadOption, WorkFailed
from fedpriv.metrics.gates import gates_of
from fedpriv.progress import Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.audit.battery import standing
from fedpriv.simulations.audit.cells import Cell, cell_scenario
from fedpriv.simulations.audit.probe import Means
from fedpriv.simulations.audit.stage import attacked
from fedpriv.simulations.audit.tasks import one_by_one
from fedpriv.simulations.checks import check
from fedpriv.simulations.cli.ending import print_leaks
from fedpriv.simulations.deploy.control import Status
from fedpriv.simulations.deploy.submission import carried_out
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.pipeline import run_all
from fedpriv.sweepfolder import SweepFolder

ROOT = Path(package.__file__).resolve().parents[1]
TABLE = {"data": {"name": "synthetic", "options": {"kind": "table", "train": 64, "test": 32}}}


def quiet():
    return PlainLines(Console(quiet=True))


def light_on(page: Path) -> str:
    """The word at the top of a page."""
    text = page.read_text("utf-8")
    found = re.search(r"Leaks|Close to the bound|Holds|Undecided", text[text.index("<body") :])
    return found.group() if found else ""


# 1: the gate of a scenario that shares codes


def test_a_gate_that_the_page_calls_crossed_ends_the_run_with_1(fedpriv, file, tmp_path):
    codes = file(CODES, attacks=[{"name": "decoder"}])
    assert fedpriv("run", codes, "--out", tmp_path / "free")[0] == 0
    values = RunFolder(tmp_path / "free").scores()["psnr"]
    # A bound that single samples cross, while the mean of all stays within it.
    bound = float(values.mean() + values.max()) / 2
    gate = ("--set", f"gate.psnr={bound}")
    code, _, err = fedpriv("run", codes, *gate, "--out", tmp_path / "judged")
    assert values.mean() < bound < values.max()
    assert light_on(tmp_path / "judged" / "report.html") == "Leaks"
    assert code == 1 and "crossed by" in err
    gate = ("--set", f"gate.psnr={2 * values.max()}")
    assert fedpriv("run", codes, *gate, "--out", tmp_path / "held")[0] == 0
    assert light_on(tmp_path / "held" / "report.html") == "Holds"


def test_neither_gate_nor_page_rests_on_an_analysis_that_is_told_a_secret(fedpriv, file, tmp_path):
    attacks = [{"name": "decoder"}, {"name": "mask-overlap"}]
    masked = {"plugins": [{"name": "ars", "epsilon": 50.0}], "attacks": attacks}
    codes = file(CODES, **masked)
    assert fedpriv("run", codes, "--out", tmp_path / "free")[0] == 0
    scores = RunFolder(tmp_path / "free").scores()
    told = scores["by"] == "analysis"
    assert told.any() and scores[told]["psnr"].max() > scores[~told]["psnr"].max()
    bound = float(scores[~told]["psnr"].max() + scores[told]["psnr"].max()) / 2
    gate = ("--set", f"gate.psnr={bound}")
    assert fedpriv("run", codes, *gate, "--out", tmp_path / "judged")[0] == 0
    assert light_on(tmp_path / "judged" / "report.html") != "Leaks"


# 2: the preflight table


def test_no_column_of_the_preflight_table_is_empty(fedpriv, file, tables_on, tmp_path):
    updates = file(UPDATES, training={"batch-size": 8}, attacks=[{"name": "linear"}])
    fedpriv("run", updates, "--out", tmp_path / "R")
    head, *rows = tables_on(tmp_path / "R" / "report.html")["What stands in the way of an attack"]
    assert rows
    for number, column in enumerate(head):
        assert any(row[number] not in ("", "–") for row in rows), column


# 3: the audit's attackers


def test_an_audit_tries_the_attacker_who_knows_of_augment(tmp_path):
    augmented = from_tables(merged(UPDATES, {"plugins": [{"name": "augment"}]}))
    cell = Cell(1)
    assert "policy-aware" in [one.label for one in standing(cell_scenario(augmented, cell))]
    means = Means(Starts(tmp_path / "starts"), partial(one_by_one, told=Told()), float("inf"))
    found = attacked(augmented, [cell], RunFolder(tmp_path / "cells"), means, 12_000, enough=0)
    informed = [row for row in found.rows if row["attack"] == "policy-aware"]
    assert informed and {row["knows"] for row in informed} == {"augment"}
    lost = [one["why"] for one in found.missing if one["attack"] == "policy-aware"]
    assert all("units have room for" in why for why in lost)  # fewer steps, and nothing else


# 4: data that are no pictures


def test_a_sweep_on_a_table_has_results(fedpriv, file, tasks_here, tmp_path):
    defences = [
        {"name": "none"},
        {"name": "noise", "plugins": [{"name": "noise", "scale": 0.1}], "informed": []},
    ]
    options = {"attacks": ["linear"], "victims": 2, "at": 0.0}
    rows = file(UPDATES, **TABLE, defences=defences, sweep=options)
    code, _, err = fedpriv("sweep", rows, "--out", tmp_path / "S")
    assert code == 0, err
    results = SweepFolder(tmp_path / "S").results()
    assert len(results) == 2 and "error" not in results
    assert (results["relative-error"] >= 0).all() and "psnr" not in results
    assert (tmp_path / "S" / "report.html").exists()


def test_scores_without_a_psnr_can_be_printed(capsys):
    row = {"attack": "linear", "round": 1, "node": 0, "seconds": 0.1, "relative-error": 0.25}
    result = {"scores": [row], "attacks-failed": [], "findings": []}
    print_leaks("deployed", result, Console(width=160), Console(stderr=True))
    assert "0.250" in capsys.readouterr().out


# 5: a user's own folders with our names


@pytest.mark.parametrize("kind", ["plugins", "strategies"])
def test_a_folder_with_its_own_clients_and_strategies_shadows_nothing(tmp_path, kind):
    for name in ("clients", "strategies", "attacks", "simulations"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("mine = True\n")
    done = subprocess.run(
        [sys.executable, "-m", "fedpriv", "list", kind],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert ("pruning" if kind == "plugins" else "round-robin") in done.stdout


# 6: gates that nothing can be measured for


@pytest.mark.parametrize("world", ["updates", "codes", "table"])
def test_every_metric_is_measured_or_refused_as_a_gate_before_training(world, tmp_path):
    tables = {
        "updates": merged(UPDATES, {"attacks": [{"name": "linear"}]}),
        "codes": merged(CODES, {"attacks": [{"name": "decoder"}]}),
        "table": merged(UPDATES, {**TABLE, "attacks": [{"name": "linear"}]}),
    }[world]
    scenario = from_tables(tables)
    run_all(scenario, RunFolder(tmp_path / "R"), quiet)
    measured = set(RunFolder(tmp_path / "R").scores().columns)
    for name in METRICS:
        try:
            check(scenario, gates_of({name: 0.5}))
            accepted = True
        except BadOption:
            accepted = False
        assert accepted == (name in measured), name


def test_a_gate_that_nobody_can_check_is_refused_before_training(fedpriv, file, tmp_path):
    updates = file(UPDATES, attacks=[{"name": "linear"}])
    code, _, err = fedpriv("run", updates, "--fail-if", "attribute-hit>1", "--out", tmp_path / "R")
    assert code == 2 and "attribute-hit" in err
    assert not (tmp_path / "R").exists()


# 7: metrics whose names have a hyphen


def test_a_metric_with_a_hyphen_is_in_the_scores_and_on_the_page(
    fedpriv, file, somebody, tables_on, tmp_path
):
    text = (
        "from fedpriv.metrics.metric import Metric\n"
        "def worst_pixel():\n"
        '    """the largest error of a pixel"""\n'
        "    return Metric(lambda guess, truth: (guess - truth).abs().flatten(1).amax(1), 'low')\n"
    )
    somebody("pixels", {"worst": text}, {"metrics": {"worst-pixel": "pixels.worst:worst_pixel"}})
    fedpriv("run", file(UPDATES, attacks=[{"name": "linear"}]), "--out", tmp_path / "R")
    scores = RunFolder(tmp_path / "R").scores()
    assert scores["worst-pixel"].notna().all() and scores["worst-pixel-blind"].notna().all()
    page = tables_on(tmp_path / "R" / "report.html")
    metrics = [row[1] for row in page["Leakage by attack and metric"][1:]]
    assert "worst-pixel" in metrics and any("relative error" in name for name in metrics)


# 8: typing errors in attacks on codes


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ({"name": "decodr"}, "Did you mean 'decoder'"),
        ({"name": "decoder", "widht": 2}, "widht"),
        ({"name": "decoder", "width": "two"}, "width"),
        ({"name": "attribute", "attribut": "label"}, "attribut"),
        ({"name": "dlg"}, "shares codes"),
    ],
)
def test_a_typing_error_in_an_attack_on_codes_is_found_before_training(
    fedpriv, file, tmp_path, attack, said
):
    code, _, err = fedpriv("run", file(CODES, attacks=[attack]), "--out", tmp_path / "R")
    assert code == 2 and said in err
    assert not (tmp_path / "R").exists()


def test_an_attribute_that_the_data_does_not_have_is_refused_before_training(
    fedpriv, file, tmp_path
):
    codes = file(CODES, attacks=[{"name": "attribute", "attribute": "gendre"}])
    code, _, err = fedpriv("run", codes, "--out", tmp_path / "R")
    assert code == 2 and "gendre" in err
    assert not (tmp_path / "R").exists()


# 9: strategies with options of their own


def test_a_sweep_of_a_user_level_dp_federation_attacks_its_cells(
    fedpriv, file, tasks_here, tmp_path
):
    private = file(
        UPDATES,
        federation={"strategy": "user-dp-server"},
        strategy={"noise-multiplier": 0.5, "clipping-norm": 0.7},
        defences=[{"name": "none"}],
        sweep={"attacks": ["linear"], "victims": 2, "at": 1.0},
    )
    code, _, err = fedpriv("sweep", private, "--out", tmp_path / "S")
    assert code == 0, err
    results = SweepFolder(tmp_path / "S").results()
    assert len(results) == 1 and "error" not in results and results["victims"][0] == 2
    trained = SweepFolder(tmp_path / "S").training("none-s0").scenario()
    assert trained.strategy == {"noise-multiplier": 0.5, "clipping-norm": 0.7}


# 10: lists


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("attacks", ("dlg", "decoder", "mask-reading", "attribute")),
        ("autoencoders", ("ars-conv", "ran-lenet", "arl-resnet")),
    ],
)
def test_attacks_on_codes_and_autoencoders_can_be_listed(fedpriv, kind, names):
    code, out, _ = fedpriv("list", kind)
    assert code == 0 and all(name in out for name in names)


# 11: real federations


class Engine:
    """A federation that has finished its run: what the ServerApp and the clients wrote is there."""

    def __init__(self, truth: Path, good: bool = True) -> None:
        self.truth, self.good = truth, good

    def control(self):
        return self

    def wait(self, run, look):
        look()
        return Status(run, "finished", "completed" if self.good else "failed", "")

    def log(self, run):
        return ["the ServerApp's last words\n"]

    def nodes(self):
        return [(1, "online", ""), (2, "online", "")]

    def truths(self):
        return [self.truth]


@pytest.fixture
def deployed(tmp_path):
    """A run folder as a deployed ServerApp leaves it, and where clients keep the truth."""
    scenario = from_tables(
        merged(UPDATES, {"attacks": [{"name": "linear", "rounds": "last"}], "gate": {"psnr": 20}})
    )
    folder = simulate(scenario, RunFolder(tmp_path / "R"), quiet())
    kept = folder.truth.rename(tmp_path / "of-clients")
    return scenario, folder, kept


def test_a_deployed_run_ends_in_scores_and_a_page(deployed):
    scenario, folder, kept = deployed
    found = carried_out(Engine(kept), 7, scenario, folder, lambda line: None)
    assert len(found["scores"]) == 2 and len(folder.scores()) == 2
    assert found["status"].startswith("finished") and not found["partial"]
    assert light_on(Path(found["report"])) == "Leaks"


def test_a_deployed_run_that_failed_says_the_last_words(deployed):
    scenario, folder, kept = deployed
    with pytest.raises(WorkFailed, match="last words"):
        carried_out(Engine(kept, good=False), 7, scenario, folder, lambda line: None)


def test_deploy_run_judges_by_its_gate(fedpriv, deployed, monkeypatch, file):
    scenario, folder, kept = deployed
    monkeypatch.setattr("fedpriv.simulations.cli.deploy.engine_of", lambda *_: Engine(kept))
    monkeypatch.setattr("fedpriv.simulations.deploy.submission.submitted", lambda *_, **__: 7)
    path = folder.path.parent / "again.toml"
    path.write_text(scenario.toml())
    code, out, err = fedpriv("deploy", "run", path, "--out", folder.path)
    assert code == 1 and "crossed by" in err and "report.html" in out.replace("\n", "")


def test_deploy_run_checks_before_anything_is_submitted(fedpriv, monkeypatch, file, tmp_path):
    def submitted(*given, **options):
        raise AssertionError("a wrong scenario was submitted")

    monkeypatch.setattr("fedpriv.simulations.cli.deploy.engine_of", lambda *_: Engine(tmp_path))
    monkeypatch.setattr("fedpriv.simulations.deploy.submission.submitted", submitted)
    wrong = file(UPDATES, attacks=[{"name": "linear", "stepz": 3}])
    code, _, err = fedpriv("deploy", "run", wrong, "--out", tmp_path / "R")
    assert code == BadInput.exit_code and "stepz" in err
    right = file(UPDATES, attacks=[{"name": "linear"}])
    code, _, err = fedpriv("deploy", "run", right, "--fail-if", "face>0.5", "--out", tmp_path / "R")
    assert code == BadInput.exit_code and "face" in err
