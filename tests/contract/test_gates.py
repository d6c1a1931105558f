"""The page and the exit code follow the same gates: all of them, and those of the command line."""

import json
from importlib import import_module

import pytest
from worlds import UPDATES

from fedpriv.errors import BadOption
from fedpriv.metrics.gates import Gate, parsed
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.simulations.api import load
from fedpriv.simulations.audit import audit
from fedpriv.simulations.audit.audit import attacks_of
from fedpriv.simulations.judging.gate import check_gates

LINEAR = {"name": "linear", "rounds": "last"}


@pytest.mark.parametrize(
    ("gates", "code", "light"),
    [
        (["psnr>1000"], 0, "grey"),  # no gate is crossed, and too few were attacked for green
        (["psnr>5"], 1, "red"),
        (["psnr>1000", "relative-error<0.5"], 1, "red"),  # the second one decides
        (["relative-error<0.5", "psnr>1000"], 1, "red"),
    ],
)
def test_the_light_follows_the_worst_of_all_gates(fedpriv, file, tmp_path, gates, code, light):
    place = tmp_path / "R"
    asked = [part for gate in gates for part in ("--fail-if", gate)]
    found, _, err = fedpriv("run", file(UPDATES, attacks=[LINEAR]), "--out", place, *asked)
    assert found == code, err
    verdict = load(place).verdict
    assert verdict.light == light
    assert ("Gate by gate" in verdict.sentences[0]) == (len(gates) > 1)
    again, _, _ = fedpriv("report", place)  # the gates are in the folder
    assert again == 0 and verdict.word in RunFolder(place).report_file.read_text()
    assert RunFolder(place).gates() == gates


def test_a_gate_that_nobody_measured_leaves_the_page_undecided(fedpriv, file, tmp_path):
    place = tmp_path / "R"
    fedpriv("run", file(UPDATES, attacks=[LINEAR]), "--out", place)
    RunFolder(place).write_gates(["psnr>1000", "face>0.5"])
    assert load(place).verdict.light == "grey"
    RunFolder(place).write_gates(["psnr>5", "face>0.5"])
    assert load(place).verdict.light == "red"  # a leak wins over anything missing


def test_an_attack_that_failed_is_on_the_page_and_leaves_it_undecided(fedpriv, file, tmp_path):
    place = tmp_path / "R"
    world = merged(UPDATES, {"training": {"batch-size": 4}})
    rows = [{"name": "quick", "steps": 2, "rounds": "last"}, LINEAR]  # linear needs one sample
    code, _, err = fedpriv(
        "run", file(world, attacks=rows), "--out", place, "--fail-if", "psnr>1000"
    )
    assert code == 4 and "linear" in err, err
    (found,) = [one for one in RunFolder(place).findings() if one["severity"] == "failed"]
    assert found["attack"] == "linear"
    verdict = load(place).verdict
    assert verdict.light == "grey" and "The attack linear failed." in verdict.sentences[0]


def test_gates_of_an_audit_are_checked_against_all_of_its_attacks(tmp_path, monkeypatch):
    """Without the attacks that race: who knows `noise` is left, and is enough for a gate."""
    monkeypatch.setattr(import_module(attacks_of.__module__), "fitting", lambda scenario: [])
    noisy = from_tables({**UPDATES, "plugins": [{"name": "noise", "scale": 0.1}]})
    assert attacks_of(noisy) == ["noise-aware"]
    check_gates([parsed("psnr>20")], noisy, attacks_of(noisy))
    with pytest.raises(BadOption, match="no attack that can act"):
        audit(from_tables(UPDATES), RunFolder(tmp_path / "A"), fail_if=["psnr>20"])
    assert not (tmp_path / "A").exists()


def test_a_gate_is_written_as_it_was_meant():
    assert str(parsed("psnr>20")) == "psnr>20"
    assert parsed(str(Gate("psnr", True, 20.123456789))).bound == 20.123456789
    assert json.loads(json.dumps([str(parsed("relative-error<0.3"))])) == ["relative-error<0.3"]
