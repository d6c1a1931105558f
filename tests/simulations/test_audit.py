"""An audit judges the federation that was configured: it leaks, holds, or is undecided."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.resources import files
from types import SimpleNamespace

import jsonschema
import pytest
from rays import environment
from worlds import CODES, UPDATES

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.errors import BadOption
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.binding import parameters
from fedpriv.simulations.api import load
from fedpriv.simulations.audit import audit
from fedpriv.simulations.audit.cells import possible_cells
from fedpriv.simulations.audit.conclusion import without_need, without_time
from fedpriv.simulations.audit.own_terms import stopping
from fedpriv.simulations.cli import main

LOUD = {"name": "noise", "scale": 10.0}
BARE = merged(
    UPDATES,
    {
        "training": {"batch-size": 2},
        "federation": {"rounds": 1},
        "defences": [{"name": "loud", "plugins": [LOUD]}],
    },
)
PSNR = ("psnr>20",)
WORK = 10_000  # units: enough for one search on one client


def commanded(monkeypatch, *arguments):
    """The exit code of `fedpriv audit …`."""
    monkeypatch.setattr(sys, "argv", ["fedpriv", "audit", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code


def assert_same_scores(one, other):
    first, second = (
        RunFolder(place).scores().drop(columns=["seconds", "run"]) for place in (one, other)
    )
    assert len(first) and first.equals(second)  # NaN equals NaN


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The audit of an undefended federation, and its folder."""
    place = tmp_path_factory.mktemp("audits") / "bare"
    found = audit(from_tables(BARE), RunFolder(place), work=WORK, fail_if=PSNR)
    return SimpleNamespace(found=found, place=place)


def schema():
    text = files("fedpriv").joinpath("report/verdict.schema.json").read_text("utf-8")
    return json.loads(text)


def test_an_undefended_federation_leaks_as_it_is_configured(bare):
    found = bare.found
    assert found["outcome"] == "leaks" and found["sentence"].startswith("Leaks: ")
    (question,) = found["questions"]
    assert question["hits"] > 0 and question["worst"] > 20 > question["blind"]
    scores = RunFolder(bare.place).scores()
    own = scores[scores["configured"]]
    assert set(own["batch"]) == {"2, as configured"}
    drawn = own[own["psnr"].notna()]  # others say who was in, or what a client holds
    assert question["victims"] == len(drawn[["node", "victim"]].drop_duplicates())
    assert load(bare.place).verdict.light == "red"
    page = (bare.place / "report.html").read_text("utf-8")
    assert "The federation as configured" in page and "What was tested, and what was not" in page


def test_what_a_server_could_ask_for_is_a_table_of_its_own(bare):
    found = bare.found["possible"]
    assert found["outcome"] == "leaks" and "Terms of clients can forbid" in found["sentence"]
    scores = RunFolder(bare.place).scores()
    asked = scores[~scores["configured"].astype(bool)]
    honest = asked[asked["by"] == "curious server"]
    assert {str(batch) for batch in honest["batch"]} <= {"1", "4", "8"} and len(honest)


def test_servers_that_change_the_model_are_a_table_of_their_own(bare):
    found = bare.found["malicious"]
    assert found["outcome"] == "leaks" and found["sentence"].startswith("A server that changes")
    scores = RunFolder(bare.place).scores()
    read = scores[scores["by"] == "malicious server"]
    assert "2, imprint" in set(read["batch"]) and not read["configured"].any()


def test_a_guard_is_judged_by_the_servers_that_it_is_against(tmp_path):
    guarded = merged(BARE, {"plugins": [{"name": "guard"}]})
    found = audit(from_tables(guarded), RunFolder(tmp_path / "A"), work=1, fail_if=PSNR)
    assert "imprint" in found["malicious"]["turned-away"]
    scores = RunFolder(tmp_path / "A").scores()
    through = scores[scores["by"] == "malicious server"]
    assert through["configured"].all()  # whoever gets through decides the verdict
    assert "no attack knows" not in found["sentence"]


def test_coverage_says_what_was_tested_and_what_was_not(bare):
    lines = {(one["threat"], one["claim"]): one for one in bare.found["coverage"]}
    sample = lines["curious server, sees one update", "sample"]
    assert sample["state"] == "tested" and "strongest" in sample["attacks"]  # it found a leak
    assert lines["malicious server, sees one update", "sample"]["state"] == "tested"
    assert lines["curious server, sees the models of all rounds", "member"]["state"] == "tested"
    knowing = lines["curious server who knows pruning, sees one update", "sample"]
    assert knowing["state"] == "does not apply" and knowing["why"]
    assert all(one["nist"] for one in lines.values())


def test_a_verdict_follows_its_schema(bare):
    jsonschema.validate(RunFolder(bare.place).verdict(), schema())
    wrong = {**RunFolder(bare.place).verdict(), "outcome": "fine"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema())


def test_an_audit_that_was_stopped_goes_on_to_the_same_scores(bare, tmp_path):
    calls = iter(range(10**9))
    place = RunFolder(tmp_path / "A")
    given = {"work": WORK, "fail_if": PSNR}
    first = audit(from_tables(BARE), place, progress=lambda part, loss: next(calls) < 40, **given)
    assert first["interrupted"]
    jsonschema.validate(place.verdict(), schema())
    again = audit(from_tables(BARE), place, resume=True, **given)
    assert not again["interrupted"] and again["questions"] == bare.found["questions"]
    assert again["races"] == bare.found["races"]
    assert_same_scores(place.path, bare.place)  # the same units, the same scores


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_two_workers_on_ray_find_the_same(bare, tmp_path):
    place = tmp_path / "ray"
    found = audit(from_tables(BARE), RunFolder(place), work=WORK, fail_if=PSNR, workers=2)
    assert found["outcome"] == "leaks" and found["questions"] == bare.found["questions"]
    assert_same_scores(place, bare.place)


CLUSTER = """
import json, sys
from pathlib import Path
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes(timeout=300)
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.audit import audit
scenario, place, work = Scenario.of({"scenario": sys.argv[1]}), Path(sys.argv[2]), int(sys.argv[3])
audit(scenario, RunFolder(place), work=work, fail_if=["psnr>20"], ray_address=cluster.address)
import ray
ray.init(address=cluster.address, log_to_driver=False)
print(json.dumps({"nodes": sum(node["Alive"] for node in ray.nodes())}))
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_cluster_of_two_nodes_ends_in_the_same_verdict(bare, tmp_path):
    """In a process of its own: a cluster started here must not meet the other tests' Ray."""
    place = tmp_path / "A"
    given = [from_tables(BARE).text(), str(place), str(WORK)]
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, *given],
        capture_output=True, text=True, timeout=1100, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.strip().splitlines()[-1])["nodes"] == 2
    found = RunFolder(place).verdict()
    assert found["outcome"] == bare.found["outcome"]
    assert found["questions"] == bare.found["questions"] and found["races"] == bare.found["races"]
    assert_same_scores(place, bare.place)


def test_the_command_ends_with_1_for_a_leak(monkeypatch, tmp_path, capsys):
    path = tmp_path / "s.toml"
    path.write_text(from_tables(BARE).toml())
    given = ("--work", WORK, "--workers", 1, "--fail-if", *PSNR, "--out", tmp_path / "A")
    assert commanded(monkeypatch, path, *given) == 1
    said = " ".join(capsys.readouterr().out.split())
    found = RunFolder(tmp_path / "A").verdict()
    assert said.startswith("Leaks. ") and f"accuracy: {found['accuracy']:.1%}" in said
    assert found["advice"] and " ".join(found["advice"].split()) in said  # about defences
    assert found["next"]["command"] in said


def test_an_audit_that_had_no_time_is_undecided_with_4(monkeypatch, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(from_tables(merged(BARE, {"federation": {"rounds": 3}})).toml())
    given = ("--minutes", 0.0001, "--workers", 1, "--out", tmp_path / "A")
    assert commanded(monkeypatch, path, *given) == 4
    found = RunFolder(tmp_path / "A").verdict()
    assert found["outcome"] == "undecided" and not found["defences"]
    assert "training ended after 1 of 3 rounds" in found["sentence"]
    assert load(tmp_path / "A").verdict.light == "grey"
    assert "Undecided" in (tmp_path / "A" / "report.html").read_text("utf-8")
    jsonschema.validate(found, schema())


def test_defences_that_had_no_time_are_named():
    said = without_time(["pruning-5", "dp-8"])
    assert said.startswith("No defence was tried") and said.endswith("pruning-5, dp-8.")
    assert without_time([]) == ""
    assert "before it was tested" in without_need("undecided", asked=False)
    assert "no leak was found" in without_need("holds", asked=True)
    assert without_need("leaks", asked=True) == ""


@pytest.mark.parametrize(
    ("training", "stopped"),
    [({"batch-size": 16, "local-steps": 2}, True), ({"batch-size": 4, "local-steps": 2}, False)],
)
def test_terms_are_named_only_where_the_clients_rule_refuses_every_round_of_the_table(
    training, stopped
):
    scenario = from_tables(merged(BARE, {"training": training}))
    text = stopping(scenario, possible_cells(scenario, (1,)), [])
    assert bool(text) is stopped
    if stopped:
        assert "batch-size = [16, 4096]" in text and "cost nothing" in text
        assert "not shown to hold" in text  # what is left, unless a server was asked about it


def test_a_stop_while_it_attacks_is_undecided_and_keeps_its_page(tmp_path):
    held = merged(BARE, {"gate": {"psnr": 99.0}, "plugins": [LOUD]})  # which nothing crosses
    calls = iter(range(10**9))
    found = audit(
        from_tables(held),
        RunFolder(tmp_path / "A"),
        work=WORK,
        progress=lambda part, loss: next(calls) < 40,
    )
    assert found["outcome"] == "undecided" and found["interrupted"]
    assert "the audit was interrupted" in found["sentence"]
    assert load(tmp_path / "A").verdict.light == "grey"


def test_units_for_nothing_decide_nothing(tmp_path):
    """Two clients' samples without a hit, or none at all: never green."""
    found = audit(from_tables(BARE), RunFolder(tmp_path / "A"), work=1, fail_if=("psnr>99",))
    assert found["outcome"] == "undecided" and found["missing"]
    assert any("no room" in doubt for doubt in found["doubts"])


def test_a_gate_typo_ends_with_2_before_anything_is_trained(monkeypatch, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(from_tables(BARE).toml())
    given = ("--fail-if", "psrn>20", "--out", tmp_path / "A")
    assert commanded(monkeypatch, path, *given) == 2
    assert not RunFolder(tmp_path / "A").rounds_file.exists()


@pytest.mark.parametrize("given", [{"minutes": 0}, {"work": 0}])
def test_no_time_and_no_work_are_refused(tmp_path, given):
    with pytest.raises(BadOption, match=f"--{next(iter(given))}"):
        audit(from_tables(BARE), RunFolder(tmp_path / "A"), **given)


def test_strong_noise_holds_with_its_bound_or_says_why_not(tmp_path):
    noisy = from_tables(merged(BARE, {"plugins": [LOUD], "seed": 5}))
    found = audit(noisy, RunFolder(tmp_path / "A"), work=40_000, fail_if=PSNR)
    (question,) = found["questions"]
    assert question["word"] == "holds" and question["victims"] >= 29 and question["high"] < 0.12
    assert "noise-aware" in set(RunFolder(tmp_path / "A").scores()["attack"])
    # Attacks that need all their steps found no room for them, so that it is not called safe.
    assert found["outcome"] == "undecided" and "units have room for" in found["sentence"]
    assert load(tmp_path / "A").verdict.light == "grey"


def test_a_defence_that_holds_has_a_price(tmp_path, monkeypatch):
    for name in ("strongest", "noise-aware"):  # short ones, so that all their steps fit
        row = ATTACKS[name]
        short = {key: 60 for key in ("steps", "polish") if key in parameters(row.build)}
        monkeypatch.setitem(ATTACKS._rows, name, replace(row, build=partial(row.build, **short)))
    found = audit(from_tables(BARE), RunFolder(tmp_path / "A"), work=80_000, fail_if=PSNR)
    (loud,) = found["defences"]
    assert loud["word"] == "holds", loud["why"]
    assert len(loud["price"]["accuracy"]) == 2 and loud["price"]["bytes"] == 1.0
    assert found["cheapest"] == "loud" and found["defended-cell"] == "round-1-batch-own"
    assert "noise(scale=10.0)" in found["advice"] and "accuracy instead of" in found["advice"]


VERTICAL = {
    "data": {
        "options": {"kind": "table", "size": 9, "train": 150, "noise": 0.02},
    },
    "federation": {"strategy": "vertical"},
    "representation": {"curious-samples": 30},
}


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"plugins": [{"name": "ars", "epsilon": 50.0}]}, "sample"),
        (merged(VERTICAL, {"representation": {"publish-encoders": True}}), "sample"),
    ],
)
def test_an_audit_of_codes_ends_in_a_verdict(tmp_path, changes, claim):
    found = audit(from_tables(merged(CODES, changes)), RunFolder(tmp_path / "A"), work=1)
    assert [one["claim"] for one in found["questions"]] == [claim]
    states = {one["state"] for one in found["coverage"]}
    assert "tested" in states and "does not apply" in states
    assert not found["missing"] and found["outcome"] in ("leaks", "holds", "undecided")
    assert RunFolder(tmp_path / "A").report_file.exists()
    jsonschema.validate(RunFolder(tmp_path / "A").verdict(), schema())


def test_codes_that_nobody_can_decode_are_undecided_with_the_reason(tmp_path):
    found = audit(from_tables(merged(CODES, VERTICAL)), RunFolder(tmp_path / "A"), work=1)
    assert found["outcome"] == "undecided" and "publishes its encoder" in found["sentence"]
