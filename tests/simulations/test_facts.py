"""What people ask of a recording: its facts, whether an attack can work, on which model."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import fedpriv.simulations.cli as cli
from fedpriv.engine.gradients import gradient_of
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import load_claim
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.images import psnr
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.judging.planting import controlled
from fedpriv.simulations.judging.recordings import built_model
from fedpriv.simulations.judging.telling import facts_of_all, updates_in

TASK = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 8, 5, stride=2), nn.Linear(8 * 12 * 12, 10)

    def forward(self, x):
        return self.head(self.conv(x).sigmoid().flatten(1))
"""
if not cli.app.registered_commands:
    cli.register()


def network():
    parts = {}
    exec(TASK, parts)
    torch.manual_seed(0)
    return parts["Net"]()


def picture():
    return torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(1))


def observed(unknown=()):
    net = network()
    gradient = gradient_of(net, picture(), torch.tensor([3]))
    facts = {"classes": 10, "input_shape": (1, 28, 28), "lr": 0.1, "unknown": tuple(unknown)}
    return Observation.of_gradient(net.state_dict(), gradient, **facts)


def test_facts_are_known_guessed_or_unknown_with_the_option_that_sets_each(tmp_path):
    observed(["lr", "mean", "std"]).save(tmp_path)
    rows = {row["fact"]: row for row in facts_of_all(updates_in(tmp_path))}
    assert {name for name, row in rows.items() if row["state"] == "unknown"} == {
        "lr",
        "mean",
        "std",
    }
    assert rows["classes"]["state"] == "guessed" and rows["optimiser"]["value"] == "'sgd'"
    assert rows["local-steps"]["set"] == "--set local-steps=…"
    done = CliRunner().invoke(cli.app, ["facts", str(tmp_path), "--json"])
    assert [row["fact"] for row in json.loads(done.stdout)][:3] == ["lr", "mean", "std"]


def test_a_model_of_the_folder_that_the_command_is_started_in_is_found(tmp_path, monkeypatch):
    (tmp_path / "their_task_module.py").write_text(TASK)
    observed().save(tmp_path / "obs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    done = CliRunner().invoke(
        cli.app, ["preflight", "obs", "--model", "their_task_module:Net", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["verdicts"] == {"0-0": "an attack can work here"}


def test_arrays_without_names_are_attacked_with_the_model_of_the_app_s_own_package(
    tmp_path, monkeypatch
):
    seen = observed()
    lists = {
        side: {str(i): value for i, value in enumerate(getattr(seen, side).values())}
        for side in ("sent", "received")
    }
    replace(seen, **lists).save(tmp_path / "obs")
    package = tmp_path / "my_app"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    words = ["obs", "--model", "my_app.task:Net"]
    try:
        asked = CliRunner().invoke(cli.app, ["preflight", *words, "--json"])
        attacked = CliRunner().invoke(
            cli.app, ["attack", *words, "--attack", "idlg", "--option", "steps=60"]
        )
    finally:
        for name in ("my_app", "my_app.task"):
            sys.modules.pop(name, None)
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["verdicts"] == {"0-0": "an attack can work here"}
    assert attacked.exit_code == 0, attacked.output
    found = load_claim(RunFolder(tmp_path).claim_file("idlg", "0-0"))
    assert found.labels.tolist() == [[3]]
    looked_at = slice(0, 27)  # of rows and columns: the model's windows end there
    guess, real = (x[..., looked_at, looked_at] for x in (found.pixels[0], picture()))
    assert psnr(guess, real).item() > 30


def test_a_model_can_be_named_as_in_the_catalogue():
    net = built_model("lenet", (1, 28, 28), 10)
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    with pytest.raises(BadOption, match="input-shape"):
        built_model("lenet")
    with pytest.raises(BadOption, match="Did you mean 'lenet'"):
        built_model("lennet", (1, 28, 28), 10)


@pytest.mark.slow
def test_a_control_says_what_an_attack_gets_of_its_own_client():
    seen = observed().on(network())
    good = controlled(seen, "idlg")
    assert good.psnr > 20 and "can work here" in good.sentence
    many = controlled(seen.told(batch_size=100, num_examples=100), "quick")
    assert "could not be made" in many.sentence and "100 samples" in many.why


def test_a_control_needs_an_attack_that_claims_samples():
    linear = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    gradient = gradient_of(linear, torch.rand(1, 1, 28, 28), torch.tensor([3]))
    facts = {"classes": 10, "input_shape": (1, 28, 28)}
    seen = Observation.of_gradient(linear.state_dict(), gradient, **facts).on(linear)
    assert controlled(seen, "linear").psnr > 40
