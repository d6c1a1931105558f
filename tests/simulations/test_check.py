"""`fedpriv check` finds what would fail later; `fedpriv new` writes what passes."""

import json
import sys
import tomllib

import pytest
import tomli_w

from fedpriv.scenario import from_tables, read
from fedpriv.simulations.checks import problems
from fedpriv.simulations.cli import main
from fedpriv.simulations.cli.sweep import failures
from fedpriv.simulations.forecast import forecast
from fedpriv.strategies.rounds import said_once

SMALL = {
    "data": {"name": "synthetic", "options": {"train": 64, "test": 16}},
    "model": {"name": "mlp"},
    "federation": {"clients": 3, "rounds": 2},
}
ONE, LENET = {"batch-size": 1, "local-steps": 1}, {"name": "lenet"}
WRONG = {
    "dp with BatchNorm": (
        {"model": {"name": "convnet"}, "plugins": [{"name": "dp", "epsilon": 8}]},
        'Set model.batchnorm = "group"',
    ),
    "ars on updates": ({"plugins": [{"name": "ars"}]}, "protects codes, but the strategy shares"),
    "unknown metric in a gate": (
        {"gate": {"psn": 20}, "attacks": [{"name": "linear"}]},
        "Did you mean 'psnr'?",
    ),
    "attack rounds beyond the run": (
        {"attacks": [{"name": "linear", "rounds": [1, 9]}]},
        "wants rounds (1, 9), but the federation has rounds 1 to 2",
    ),
    "victims that do not exist": (
        {"malicious": {"name": "imprint", "victims": [7]}},
        "there is no client 7 to attack",
    ),
    "a hook with a wrong signature": (
        {"plugins": [{"name": "own_parts:Short"}]},
        "on_update must take (update, job)",
    ),
    "an attack with a wrong signature": (
        {"attacks": [{"name": "own_parts:Deaf"}]},
        "attack 'own_parts:Deaf' must take (evidence, progress)",
    ),
    "a sweep of an attack with nothing to do": (
        {
            "model": {"name": "lenet"},
            "sweep": {"attacks": ["linear"]},
            "defences": [{"name": "none"}],
        },
        "'linear' can find nothing here: it needs a model whose first layer is fully connected",
    ),
    "more clients than samples": ({"federation": {"clients": 99, "rounds": 2}}, "99"),
}
OWN = '''
import torch
from fedpriv import PrivacyPlugin, Reconstruction

class Short(PrivacyPlugin):
    def on_update(self, update):
        return update

class Deaf:
    def __call__(self, evidence):
        return evidence

def grey(observations, level: float = 0.5):
    """Guesses one grey for every sample."""
    x = torch.stack([torch.full((1, *seen.input_shape), level) for seen in observations])
    none = torch.empty(len(x), 0, dtype=torch.long)
    return Reconstruction(x=x, labels=none, loss=torch.zeros(len(x)))
'''


@pytest.fixture
def fedpriv_command(monkeypatch, capsys):
    """Run `fedpriv …` in this process: exit code, standard output, standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedpriv", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return stop.value.code or 0, said.out, said.err

    return call


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    (tmp_path / "own_parts.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_found_before_any_training(wrong, own_parts):
    tables, words = WRONG[wrong]
    found = problems(from_tables(SMALL | tables))
    assert [text for text in found.values() if words in text], found


def test_an_attack_that_will_find_nothing_is_said():
    """A run goes on without it, so that it is a warning."""
    batch = {"attacks": [{"name": "linear"}], "training": {"batch-size": 8, "local-steps": 1}}
    (said,) = forecast(from_tables(SMALL | batch)).doubts
    assert said == "attack 'linear' can find nothing here: it needs updates of one sample"
    assert not forecast(from_tables(SMALL | batch | {"training": ONE})).doubts
    (said,) = forecast(from_tables(SMALL | batch | {"training": ONE, "model": LENET})).doubts
    assert said.endswith("it needs a model whose first layer is fully connected")


def test_cells_that_fail_alike_are_one_line():
    row = {"attack": "linear", "error": "FedprivError: no layer", "value": None}
    rows = [row | {"defence": "none"}, row | {"defence": "noise", "value": 0.1}]
    assert failures([*rows, rows[1]]) == ["linear failed for none, noise 0.1: no layer"]


def test_all_mistakes_are_named_at_once(own_parts):
    tables = {"plugins": [{"name": "ars"}], "gate": {"psn": 20}}
    tables["attacks"] = [{"name": "linear", "rounds": [9]}]
    assert len(problems(from_tables(SMALL | tables))) == 3
    assert problems(from_tables(SMALL)) == {}


def test_the_command_prints_mistakes_or_what_it_takes(fedpriv_command, tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(SMALL | {"name": "s"}))
    code, said, _ = fedpriv_command("check", path)
    assert code == 0 and "backend: inline, because" in said and "memory: about" in said
    code, said, err = fedpriv_command("check", path, "--set", 'plugins=["ars"]', "--json")
    assert code == 2 and "1 problem" in err
    assert "would do nothing" in json.loads(said)["problems"][""]["federation"]


def test_a_forecast_counts_victims_and_steps():
    attack = {"name": "quick", "victims": 1, "steps": 10}
    few = forecast(from_tables(SMALL | {"attacks": [attack]}))
    none = forecast(from_tables(SMALL))
    assert few.attack_minutes > 0 == none.attack_minutes
    assert few.disk_gb > 0 == none.disk_gb and few.device.startswith("cpu")


def test_a_forecast_counts_all_samples_behind_an_update(monkeypatch):
    """A step of a search on ten local steps takes as long as ten on one."""
    monkeypatch.setattr("fedpriv.simulations.forecast.step_seconds", lambda scenario: 1.0)
    searched = {"attacks": [{"name": "strongest", "rounds": "last"}]}

    def minutes(steps):
        training = {"training": {"local-steps": steps, "batch-size": 2}}
        return forecast(from_tables(SMALL | searched | training)).attack_minutes

    assert minutes(10) == 10 * minutes(1) > 0


def attacked(**federation):
    """Minutes of attacks by what they are."""

    def minutes(*attacks):
        tables = {**SMALL, "federation": {**SMALL["federation"], **federation}}
        tables |= {"inference": {"candidates": 16}, "training": {"batch-size": 16}}
        made = from_tables(tables | {"attacks": list(attacks)})
        return forecast(made).attack_minutes

    return minutes


def test_a_forecast_counts_shadow_federations(monkeypatch):
    monkeypatch.setattr("fedpriv.simulations.forecast.step_seconds", lambda scenario: 60.0)
    minutes = attacked(rounds=4)  # one minute a step: minutes are steps
    alone = minutes({"name": "member-loss"})
    scored = 6.0 * 16 / 32  # candidates, of which 32 are scored at a time
    assert alone == pytest.approx(4 * scored)
    trained = 3 * 2  # three clients with 21 samples each, in batches of 16
    shadow = 4 * (trained + scored)
    four, twenty = ({"name": "lira", "count": count} for count in (4, 20))
    assert minutes(four) == pytest.approx(alone + 4 * shadow)
    assert minutes(twenty) == pytest.approx(alone + 20 * shadow)
    long = forecast(from_tables(SMALL | {"attacks": [{"name": "member-loss"}, twenty]})).lines
    assert "to shorten the attacks, lower attacks.count (shadow federations)" in long
    assert minutes(twenty, {"name": "rmia", "count": 20}) == minutes(twenty)  # the same shadows
    assert minutes(twenty, four) == pytest.approx(alone + 24 * shadow)
    assert minutes({**four, "rounds": "last"}) == pytest.approx(minutes(four) / 4)


def test_few_members_are_said_before_any_training():
    few = forecast(from_tables(SMALL | {"attacks": [{"name": "member-loss"}]}))
    assert "warning: few candidates: Attacks are asked about 8 members" in "\n".join(
        few.lines
    )  # of 16 test samples
    assert forecast(from_tables(SMALL | {"attacks": [{"name": "quick"}]})).doubts == ()


def test_a_forecast_counts_shadow_clients(monkeypatch):
    monkeypatch.setattr("fedpriv.simulations.forecast.step_seconds", lambda scenario: 60.0)
    found = attacked(rounds=4)({"name": "class-shares", "clients": 50, "refinements": 1})
    assert found == pytest.approx(2 * (50 + 3) * 2)  # two rounds, two steps a client


def test_a_forecast_of_a_sweep_counts_all_of_it(monkeypatch):
    monkeypatch.setattr("fedpriv.simulations.forecast.step_seconds", lambda scenario: 60.0)
    one = from_tables(SMALL)
    tables = {
        "sweep": {"attacks": ["quick"], "seeds": [0, 1], "victims": 2, "batch-sizes": [1, 4]},
        "defences": [
            {"name": "none"},
            {
                "name": "pruned",
                "plugins": [{"name": "pruning"}],
                "vary": "pruning.fraction",
                "values": [0.1, 0.3],
                "informed": ["pruning-aware"],
            },
        ],
    }
    tables["sweep"]["options"] = {"quick": {"steps": 10}, "pruning-aware": {"steps": 20}}
    grid = forecast(from_tables(SMALL | tables))
    assert grid.training_minutes > 3 * forecast(one).training_minutes  # six of them
    searched = 2 * 4.0  # victims, and gradients of gradients
    assert grid.attack_minutes == pytest.approx(2 * 2 * searched * (3 * 10 + 2 * 20))
    said = "\n".join(grid.lines)
    assert "sweep: 6 trainings and 20 attacks" in said
    assert "most of it for pruning-aware" in said and "lower sweep.victims (updates)" in said


def test_new_writes_a_scenario_that_passes(fedpriv_command, tmp_path):
    path = tmp_path / "mine.toml"
    flags = ["--clients", "3", "--plugin", "dp:epsilon=8", "--attack", "quick", "--attack", "idlg"]
    code, _, err = fedpriv_command("new", path, "--yes", *flags)
    assert code == 0 and f"fedpriv check {path}" in err
    made = read(str(path))
    assert [one.name for one in made.attacks] == ["quick", "idlg"] and made.federation.clients == 3
    assert made.plugins[0].options == {"epsilon": 8} and problems(made) == {}
    assert made.training.lr == 0.1  # of quickstart, with which few rounds learn something
    commented = path.read_text("utf-8").replace("# limit", "limit").replace("# alpha", "alpha")
    assert tomllib.loads(commented)["data"]["limit"] == 600  # a comment is a key to be uncommented
    code, _, err = fedpriv_command("new", path, "--yes")
    assert code == 2 and "is there already" in err


def test_a_refusal_of_many_clients_is_said_once():
    failed = [{"client": number, "why": "dp cannot train this model."} for number in range(13)]
    failed.append({"client": 20, "why": "no answer"})
    assert said_once(failed) == [
        "clients 0, 1, 2, 3, 4 and 8 more: dp cannot train this model",
        "client 20: no answer",
    ]


def test_a_function_is_an_attack_and_needs_no_names(own_parts, fedpriv_command, tmp_path):
    one = SMALL | {"attacks": [{"name": "own_parts:grey", "level": 0.4, "victims": 2}]}
    one["federation"] = {"clients": 3, "rounds": 1, "backend": "inline"}
    path = tmp_path / "s.toml"
    path.write_text(tomli_w.dumps(one | {"name": "s", "training": {"local-steps": 1}}))
    code, _, err = fedpriv_command("run", path, "--out", tmp_path / "R", "--json")
    assert code == 0, err
    assert len(list((tmp_path / "R" / "attacks" / "own_parts.grey").glob("*.npz"))) == 2
