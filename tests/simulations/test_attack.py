"""Recordings of runs and of somebody else's app, attacked from the command line."""

import json
import math
import sys
from importlib import import_module

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.serverapp.strategy import FedAvg
from shows import quiet
from typer.testing import CliRunner

import fedpriv.simulations.cli as cli
from fedpriv.catalogue import METRICS
from fedpriv.errors import BadFolder, BadObservation, BadOption, BadScenario
from fedpriv.evidence.claims import load_claim
from fedpriv.evidence.observation import Observation
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.checks import check
from fedpriv.simulations.federation.backends import InlineBackend
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.attacking import labels_of
from fedpriv.simulations.judging.judge import judged
from fedpriv.simulations.judging.recordings import (
    attacks_named,
    facts_from,
    input_shape_of,
    of_run,
    opened,
    truths_in,
)
from fedpriv.simulations.pipeline import run_all
from fedpriv.strategies import Curious, record_to

THEIR_APP = '''
"""A Flower app in the style of Flower's quickstart; it has never heard of fedpriv."""

import torch
import torch.nn as nn
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 5, padding=2, stride=2), nn.Sigmoid(),
            nn.Conv2d(12, 12, 5, padding=2, stride=2), nn.Sigmoid(),
        )
        self.fc = nn.Linear(12 * 7 * 7, 10)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


def picture():
    side = torch.linspace(0, 3, 28)
    rows, columns = torch.meshgrid(side, side, indexing="ij")
    return (0.5 + 0.5 * torch.sin(rows * columns)).view(1, 1, 28, 28)


app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=msg.content["config"]["lr"])
    loss = nn.functional.cross_entropy(model(picture()), torch.tensor([3]))
    loss.backward()
    optimizer.step()
    metrics = MetricRecord({"train_loss": loss.item(), "num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)
'''


@pytest.fixture
def their_app(tmp_path, monkeypatch):
    (tmp_path / "their_app.py").write_text(THEIR_APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("their_app")
    sys.modules.pop("their_app", None)


def fedpriv(*arguments):
    """The command in this process: exit code and standard output."""
    if not cli.app.registered_commands:
        cli.register()
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def test_somebody_elses_app_leaks_its_picture(their_app, tmp_path):
    folder = tmp_path / "observations"
    strategy = Curious(FedAvg(fraction_evaluate=0.0), record_to(folder))
    backend = InlineBackend()
    backend.build(lambda: their_app.app)
    grid = SimulationGrid(backend, {2: Context(1, 2, {}, RecordDict(), {})})
    strategy.min_train_nodes = strategy.inner.min_train_nodes = 1
    strategy.inner.min_available_nodes = 1
    torch.manual_seed(0)
    model = their_app.Net()
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        train_config=ConfigRecord({"lr": 0.1}),
        num_rounds=1,
    )
    result = fedpriv("attack", folder, "--model", "their_app:Net", "--option", "steps=200")
    assert result.exit_code == 0, result.output
    found = load_claim(RunFolder(tmp_path).claim_file("dlg", "1-2"))
    error = (found.pixels[0, 0] - their_app.picture()[0]).square().mean()
    assert -10 * math.log10(error) > 20
    assert found.labels.item() == 3
    place = RunFolder(tmp_path)
    assert place.picture_file("dlg", "1-2").exists()
    assert not place.scores_file.exists()  # no truth, no scores


def small(tiny, **sections):
    """One victim batch each of two clients: a linear model, which the linear system solves at
    once.
    """
    tables = tiny.plain() | {
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"lr": 1.0, "batch-size": 1, "local-steps": 1},
        "federation": {"clients": 2, "rounds": 2, "backend": "inline"},
        "attacks": [{"name": "linear", "rounds": "first"}],
    }
    return from_tables(tables | sections)


@pytest.fixture
def attacked(tiny, tmp_path):
    place = RunFolder(tmp_path / "run")
    results = run_all(small(tiny), place, quiet)
    return place, results


def test_a_run_with_attacks_ends_in_scores_pictures_and_findings(attacked):
    place, results = attacked
    scores = place.scores()
    assert set(scores["node"]) == {0, 1} and set(scores["round"]) == {1}
    assert scores["psnr"].min() > 25 and set(scores["plugins"]) == {"none"}
    assert (scores["label-hit"] == 1).all() and (scores["traced-hit"] == 1).all()
    assert place.picture_file("linear", "1-0").exists()
    assert isinstance(json.loads(place.findings_file.read_text()), list)
    assert results["rows"][""]["scores"] and not results["rows"][""]["attacks-failed"]


def test_scores_have_one_schema_with_a_blind_guess_beside_every_metric(attacked):
    place, _ = attacked
    header = place.scores_file.read_text().splitlines()[0].split(",")
    about = ["run", "round", "node", "victim", "attack", "by", "knows", "claim", "plugins"]
    assert header[: len(about)] == about
    measured = [name for name in header if name in METRICS]
    assert {"psnr", "ssim", "mse", "relative-error", "label-hit", "traced-hit"} <= set(measured)
    assert {f"{name}-blind" for name in measured} <= set(header)
    scores = place.scores()
    assert set(scores["run"]) == {"run"} and set(scores["claim"]) == {"sample"}
    assert set(scores["by"]) == {"curious server"} and set(scores["knows"]) == {""}
    for victim, node in zip(scores["victim"], scores["node"], strict=True):
        assert victim in place.truth_of(f"1-{node}").indices
    assert (scores["psnr-blind"] < scores["psnr"] - 5).all()  # the evidence was worth something


def test_who_knows_a_plugin_is_named_in_the_scores(tiny, tmp_path):
    attacks = [{"name": "quick", "steps": 2}, {"name": "pruning-aware", "steps": 2}]
    plugins = [{"name": "pruning", "fraction": 0.5}]
    place = RunFolder(tmp_path / "run")
    run_all(small(tiny, plugins=plugins, attacks=attacks), place, quiet)
    known = place.scores().groupby("attack")["knows"].unique()
    assert list(known["quick"]) == [""] and list(known["pruning-aware"]) == ["pruning"]


def test_the_error_stays_below_what_theorem_2_2_promises(tiny, tmp_path):
    for scale in (0.0, 1e-4, 1e-3):
        place = RunFolder(tmp_path / str(scale))
        plugins = [{"name": "noise", "scale": scale}]
        run_all(small(tiny, plugins=plugins), place, quiet)
        scores = place.scores()
        assert (scores["input-error"] <= scores["bound"]).all()
        assert (scores["bound"] > 0).all() if scale else (scores["bound"] < 1e-3).all()


def test_guesses_that_are_there_are_not_made_again(attacked):
    place, _ = attacked
    path = place.claim_file("linear", "1-0")
    before = path.stat().st_mtime_ns
    judged(place, place.scenario())
    assert path.stat().st_mtime_ns == before


def test_a_damaged_observation_and_a_hopeless_attack_stop_nobody(attacked, tiny):
    place, _ = attacked
    (place.observations / "1-1.safetensors").write_bytes(b"not a recording")
    broken = {"name": "torch.nn:Identity"}  # builds, but gives back no reconstruction
    attacks = [broken, {"name": "linear", "rounds": "first", "options": {}}]
    found = judged(place, small(tiny, attacks=attacks))
    assert [failure.attack for failure in found.failures] == ["torch.nn.Identity"]
    assert {row["attack"] for row in found.rows} == {"linear"} and not found.partial


def test_an_attack_that_is_told_to_stop_keeps_what_it_found_and_is_done_again(tiny, tmp_path):
    place = RunFolder(tmp_path / "run")
    scenario = small(tiny, attacks=[{"name": "quick", "steps": 30, "rounds": "first"}])
    simulate(scenario, place, quiet())
    asked = []

    def twice(part, loss):
        asked.append(part)
        return len(asked) < 3

    cut = judged(place, scenario, progress=twice)
    assert cut.partial and cut.rows and all(row["partial"] for row in cut.rows)
    assert not place.attacked("quick", {"steps": 30})
    whole = judged(place, scenario)
    assert not whole.partial and not any(row["partial"] for row in whole.rows)
    assert place.attacked("quick", {"steps": 30}) == {"1-0", "1-1"}


def test_the_command_scores_a_run_folder_and_gates_it(attacked, tmp_path):
    place, _ = attacked
    out = tmp_path / "again"
    result = fedpriv("attack", place.path, "--attack", "linear", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["scores"]) == 2
    crossed = fedpriv(
        "attack", place.path, "--attack", "linear", "--out", out, "--fail-if", "psnr>20"
    )
    assert crossed.exception is not None and crossed.exception.exit_code == 1


def test_preflight_says_whether_an_attack_can_work(attacked):
    place, _ = attacked
    result = fedpriv("preflight", place.observations, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found["verdicts"]) == {"1-0", "1-1"} and isinstance(found["findings"], list)


def test_what_is_opened_is_the_evidence_of_the_run(attacked):
    place, _ = attacked
    for path in (place.path, place.observations):
        recording, where = opened(path, None, ["lr=0.5"])
        assert where == place and recording.scenario == place.scenario()
        assert [seen.name for seen in recording.evidence] == ["1-0", "1-1"]
        assert {seen.lr for seen in recording.updates} == {0.5}
    assert {seen.lr for seen in of_run(place).updates} == {1.0}


def test_what_is_wrong_is_said_before_anything_runs(tiny, tmp_path):
    with pytest.raises(BadOption, match="Did you mean 'dlg'"):
        check(small(tiny, attacks=[{"name": "dgl"}]))
    with pytest.raises(BadScenario, match="rounds 1 to 2"):
        check(small(tiny, attacks=[{"name": "dlg", "rounds": [5]}]))
    with pytest.raises(BadOption, match="put spn first"):
        check(small(tiny, plugins=[{"name": "dp", "noise-multiplier": 1.0}, {"name": "spn"}]))


def test_a_recording_without_a_model_asks_for_one(tmp_path):
    with pytest.raises(BadOption, match="--model"):
        opened(tmp_path, None, [])
    with pytest.raises(BadFolder, match="--truth"):
        truths_in(tmp_path / "nowhere")
    with pytest.raises(BadObservation, match="no usable observation"):
        opened(tmp_path, "torch.nn:Identity", [])


def test_facts_are_checked_by_name():
    assert facts_from(["lr=0.5", "input-shape=[3,8,8]"]) == {"lr": 0.5, "input_shape": (3, 8, 8)}
    with pytest.raises(BadOption, match="Did you mean 'batch-size'"):
        facts_from(["batch-sise=3"])


def test_attacks_of_one_name_get_folders_of_their_own():
    attacks = [Attack(name="dlg"), Attack(name="dlg"), Attack(name="my.lib:Mine")]
    assert labels_of(attacks) == ["dlg", "dlg-2", "my.lib.Mine"]
    assert attacks_named(["dlg"], ["steps=5"], 2)[0].options == {"steps": 5}


@pytest.mark.parametrize(("layer", "shape"), [("conv", (3, 32, 32)), ("table", (11,))])
def test_the_shape_of_an_input_is_found_by_trying(layer, shape):
    from torch import nn

    models = {
        "conv": nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.Flatten(), nn.Linear(2048, 4)),
        "table": nn.Sequential(nn.Linear(11, 4)),
    }
    assert input_shape_of(models[layer]) == shape


def test_the_observation_of_a_run_knows_what_its_scenario_says(attacked):
    place, _ = attacked
    seen = Observation.load(place.observations / "1-0.safetensors")
    assert (seen.lr, seen.batch_size, seen.local_steps, seen.classes) == (1.0, 1, 1, 4)
    assert seen.input_shape == (1, 16, 16) and seen.node == 0 and seen.mean


@pytest.mark.slow
def test_attacks_in_the_background_end_with_the_run(tiny, tmp_path):
    scenario = small(tiny, attacks=[{"name": "linear", "rounds": "all", "during": True}])
    place = RunFolder(tmp_path / "run")
    results = run_all(scenario, place, quiet)
    assert len(results["rows"][""]["scores"]) == 4
    assert "Traceback" not in place.attacks_log.read_text()
