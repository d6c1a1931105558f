"""`fedpriv verify-dp`: one command each for a Flower mod, a run folder and a run with canaries."""

import json
import sys

import pytest
from rich.console import Console

from fedpriv.report.about_epsilon import epsilon_section
from fedpriv.report.reading import read_material
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, read
from fedpriv.simulations.cli import main
from fedpriv.simulations.dp.accounting import Account, exact
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate

PLAIN = {"lr": 0.1, "batch-size": 64, "local-steps": 1}


@pytest.fixture
def verify(monkeypatch, capsys):
    """Run `fedpriv verify-dp … --json` in this process: exit code and what it found."""

    def call(*arguments):
        words = ["fedpriv", "verify-dp", *map(str, arguments), "--json"]
        monkeypatch.setattr(sys, "argv", words)
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        out = capsys.readouterr().out
        return code, json.loads(out) if out.startswith("{") else {}

    return call


@pytest.fixture
def file(tmp_path, tiny):
    def write(**sections):
        path = tmp_path / "tiny.toml"
        path.write_text(from_tables({**tiny.plain(), "training": PLAIN, **sections}).toml())
        return path

    return write


@pytest.fixture
def of_run(file, tmp_path):
    def train(**sections):
        scenario = read(str(file(**sections)))
        return simulate(scenario, RunFolder(tmp_path / "own"), PlainLines(Console(quiet=True)))

    return train


def test_a_flower_mod_with_a_small_sensitivity_is_refuted(verify):
    options = ("clipping_norm=1.0", "sensitivity=1e-4", "epsilon=10.0", "delta=1e-5")
    settings = [word for option in options for word in ("--set", option)]
    code, found = verify(
        "mechanism", "flwr.clientapp.mod:LocalDpMod", *settings, "--epsilon", 10, "--draws", 200
    )
    assert code == 1 and found["answer"] == "refuted"
    assert found["measured"]["epsilon-at-least"] > 1e7
    assert "given Gaussian noise" in found["sentence"]


def test_an_unknown_mechanism_is_bad_input(verify):
    assert verify("mechanism", "gausian", "--epsilon", 1)[0] == 2


def test_the_claim_of_a_run_folder_is_checked_and_shown_on_its_page(verify, of_run):
    folder = of_run(plugins=[{"name": "dp", "noise-multiplier": 1.0, "samples": 128}])
    code, found = verify("claim", folder.path)
    assert code == 0 and found["epsilon"]["low"] <= found["claimed"]["epsilon"]
    assert verify("claim", folder.path, "--epsilon", 0.01)[0] == 1
    (run,) = read_material([folder.path]).runs
    section = epsilon_section(run)
    ((how, unit, neighbours, delta, claimed, least, _, answer),) = section.tables[-1].rows
    assert (how, unit, neighbours, delta, claimed) == (
        "on paper", "sample", "add-remove", "1e-05", "0.01",
    )  # fmt: skip
    assert float(least) > 0.01 and answer.text == "refuted"


def test_the_claim_of_a_folder_counts_evaluations_on_held_out_samples(verify, of_run):
    own = {"name": "dp", "noise-multiplier": 1.0, "samples": 128, "evaluation-noise": 3.0}
    folder = of_run(plugins=[own], training={**PLAIN, "holdout": 0.25})
    rounds = len(folder.rounds())
    code, found = verify("claim", folder.path)
    assert found["account"]["evaluations"] == rounds and code == 0
    # The client's own account is RDP of training and evaluations together.
    assert found["formulas"]["RDP"] == pytest.approx(found["claimed"]["epsilon"], rel=0.01)
    assert found["epsilon"]["high"] <= found["claimed"]["epsilon"]
    alone = exact(Account(noise=1.0, rate=64 / 96, rounds=rounds, sampling="poisson"))
    assert found["epsilon"]["low"] == pytest.approx(alone[0])
    assert found["epsilon"]["high"] > alone[1] + 0.1


def test_the_claim_of_a_folder_may_be_about_clients(verify, of_run):
    federation = {"clients": 2, "rounds": 2, "backend": "inline", "strategy": "user-dp-server"}
    folder = of_run(federation=federation, strategy={"noise-multiplier": 2.0})
    code, found = verify("claim", folder.path)
    assert code == 0 and found["claimed"]["unit"] == "client"
    assert found["epsilon"]["high"] == pytest.approx(found["claimed"]["epsilon"], rel=0.01)
    assert verify("claim", folder.path, "--epsilon", 0.5)[0] == 1
    assert verify("claim", folder.path, "--unit", "sample")[0] == 2


def test_numbers_that_a_folder_has_itself_are_refused_beside_it(verify, tmp_path):
    assert verify("claim", tmp_path, "--rate", 0.1)[0] == 2


def test_a_run_with_canaries_has_a_control_and_ends_on_the_page(verify, file, tmp_path):
    path = file(plugins=[{"name": "dp", "noise-multiplier": 2.0, "samples": 128}])
    code, found = verify("run", path, "--canaries", 400, "--out", tmp_path / "R")
    assert code == 0 and found["answer"] == "not refuted"
    places = found["places"]
    assert places["updates"]["sees"] and places["updates"]["control"] > 1
    assert places["updates"]["epsilon"] < found["claimed"]["epsilon"]
    card, claims = epsilon_section(read_material([tmp_path / "R"]).runs[0]).tables
    assert len(claims.rows) == len(places)
    least = max(place["epsilon"] for place in places.values())
    assert f"at least {least:.3g}" in dict(card.rows)["ε by canaries"].text


def test_canaries_of_a_run_folder_end_on_the_card_of_that_folder(verify, tmp_path, of_run):
    folder = of_run(plugins=[{"name": "dp", "noise-multiplier": 2.0, "samples": 128}])
    verify("run", folder.path, "--canaries", 100, "--out", tmp_path / "C")
    found = RunFolder(tmp_path / "C").verified()["run"]
    assert folder.card()["empirical"]["epsilon-at-least"] == found["epsilon-at-least"]


def test_an_attack_that_fails_its_control_decides_nothing(verify, file, tmp_path):
    path = file(plugins=[{"name": "dp", "noise-multiplier": 2.0, "samples": 128}])
    code, found = verify("run", path, "--canaries", 20, "--out", tmp_path / "R")
    assert code == 4 and found["answer"] == "undecided"
    assert "fails its own control" in found["sentence"]


def test_noise_that_is_reused_is_refuted_by_the_account_of_the_run(verify, file, tmp_path):
    plugin = {"name": "dp_reused:NoiseReused", "noise-multiplier": 1.0}
    code, found = verify("run", file(plugins=[plugin]), "--canaries", 100, "--out", tmp_path / "R")
    assert code == 1 and "noise repeats over rounds" in found["sentence"]
    assert 0 < found["claimed"]["epsilon"] < 100


@pytest.mark.parametrize(
    "name, code", [("NoiseByRoot", 1), ("Faulty", 0)], ids=["too little noise", "sound"]
)
def test_canary_clients_tell_a_faulty_strategy_from_a_sound_one(verify, file, tmp_path, name, code):
    path = file(
        federation={
            "clients": 4,
            "rounds": 2,
            "backend": "inline",
            "strategy": f"dp_seeded_strategies:{name}",
        },
        strategy={"clients": 108, "noise-multiplier": 2.0},
    )
    answer, found = verify(
        "run", path, "--unit", "client", "--canaries", 104, "--out", tmp_path / "R"
    )
    assert answer == code, found.get("sentence")
    assert found["claimed"]["unit"] == "client"
    assert found["places"]["every model"]["sees"]
