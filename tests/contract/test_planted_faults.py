"""Faults that nobody noticed: rounds exposed wrongly, and Ctrl-C that ended in 0."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console
from worlds import UPDATES

import fedpriv as package
from fedpriv.clients.catalogue import PLUGINS
from fedpriv.clients.protection.account import PublicCount
from fedpriv.evidence.folder import load_folder
from fedpriv.progress import Told
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state
from fedpriv.simulations.audit.cells import Cell, cell_scenario
from fedpriv.simulations.audit.probe import Means
from fedpriv.simulations.audit.stage import exposed_cell
from fedpriv.simulations.audit.tasks import one_by_one
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.sweep.cells import cells_of, exposed_scenario, sweep_of
from fedpriv.sweepfolder import SweepFolder

ROOT = Path(package.__file__).resolve().parents[1]


def trained(scenario, folder, **options):
    return simulate(scenario, RunFolder(folder), PlainLines(Console(quiet=True)), **options)


def model_after(scenario, rounds, folder):
    """The public model after some rounds of a plain run; after none, what the seed gives."""
    if not rounds:
        return first_state(scenario)
    tables = merged(scenario.plain(), {"federation": {"rounds": rounds}})
    return trained(from_tables(tables), folder).checkpoint_state()


def assert_sent(evidence, state):
    for seen in evidence:
        assert seen.sent.keys() == state.keys()
        assert all(torch.equal(value, state[key]) for key, value in seen.sent.items())


@pytest.mark.parametrize("strategy", ["fedavg", "round-robin", "standalone"])
def test_an_audit_exposes_every_client_whatever_the_strategy(tmp_path, strategy):
    federation = {"strategy": strategy, "clients": 3, "rounds": 3}
    scenario = from_tables(merged(UPDATES, {"federation": federation}))
    starts = Starts(tmp_path / "starts")
    trained(scenario, tmp_path / "training", starts=starts, keep=[2])
    means = Means(starts, partial(one_by_one, told=Told()), float("inf"))
    probe = exposed_cell(scenario, Cell(2, 8), RunFolder(tmp_path / "cell"), means)
    assert probe.planted == ("2-0",)  # the attacker's own, never counted
    assert {seen.node for seen in probe.recording.updates} == {*range(1, 8)}  # all of 64 samples
    evidence, _ = load_folder(RunFolder(tmp_path / "cell").observations)
    assert sorted(seen.name for seen in evidence) == [f"2-{i}" for i in range(8)]
    assert_sent(evidence, model_after(scenario, 1, tmp_path / "plain"))


@pytest.mark.parametrize("strategy", ["fedavg", "round-robin"])
@pytest.mark.parametrize("at", [0.0, 0.25, 0.5, 1.0])
def test_a_sweep_exposes_after_the_part_of_training_it_names(
    fedpriv, file, tasks_here, tmp_path, strategy, at
):
    world = merged(UPDATES, {"federation": {"rounds": 4, "clients": 2, "strategy": strategy}})
    options = {"attacks": ["linear"], "victims": 2, "at": at}
    path = file(world, defences=[{"name": "none"}], sweep=options)
    code, _, err = fedpriv("sweep", path, "--out", tmp_path / "S")
    assert code == 0, err
    (cell,) = cells_of(SweepFolder(tmp_path / "S").scenario())
    evidence, _ = load_folder(SweepFolder(tmp_path / "S").victims("none-s0-b1").observations)
    assert sorted(seen.name for seen in evidence) == ["1-0", "1-1"]
    assert_sent(evidence, model_after(cell.setting.scenario, round(4 * at), tmp_path / "plain"))


@pytest.mark.filterwarnings("ignore:Optimal order")  # of Opacus, for few samples
def test_an_exposed_round_has_the_noise_of_training():
    plugins = [{"name": "dp", "epsilon": 2.0}]
    tables = merged(UPDATES, {"federation": {"rounds": 6}})
    tables["training"] = {"lr": 0.1, "batch-size": 8, "local-epochs": 2}
    sweep = {"attacks": ["linear"], "victims": 4}
    scenario = from_tables(
        {**tables, "sweep": sweep, "defences": [{"name": "dp", "plugins": plugins}]}
    )
    setting = cells_of(scenario)[0].setting
    smallest = 64 // 2
    dp = PLUGINS.build("dp", {"epsilon": 2.0})
    count = PublicCount(smallest, dp.count_epsilon)
    noise = dp.plan(setting.scenario, count).noise
    exposed = exposed_scenario(setting, sweep_of(scenario), 1)
    audited = cell_scenario(from_tables({**tables, "plugins": plugins}), Cell(3, 1), ())
    for one in (exposed, audited):
        (spec,) = one.plugins
        assert spec.options["noise-multiplier"] == pytest.approx(noise)
        assert "epsilon" not in spec.options
    weak = dp.plan(exposed, count).noise
    assert noise > 1.5 * weak  # what the same ε would ask of one round alone


FOREVER = 10**9
# A shell that starts jobs in the background makes them ignore SIGINT, and children inherit that.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedpriv.simulations.cli import program
program()
"""


def interrupted(arguments, folder):
    """Start a command, press Ctrl-C once its attack has begun; the exit code and what it said."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", START, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if line.startswith("quick: 0 of"):
                    break
            process.send_signal(signal.SIGINT)
            said.append(process.communicate(timeout=120)[1])
        finally:
            process.kill()
    return process.returncode, "".join(said)


@pytest.mark.parametrize(
    ("command", "gate", "code"),
    [
        ("attack", (), 130),
        ("attack", ("--fail-if", "psnr>1000"), 4),
        ("run", (), 130),
        ("run", ("--fail-if", "psnr>1000"), 4),
    ],
)
def test_ctrl_c_keeps_what_was_found_and_never_ends_in_0(file, tmp_path, command, gate, code):
    row = {"name": "quick", "steps": FOREVER, "rounds": "last"}
    path, place = file(UPDATES, attacks=[row]), tmp_path / "R"
    arguments = ["run", path, "--out", place]
    if command == "attack":
        trained(from_tables(merged(UPDATES, {"attacks": [row]})), place)
        arguments = ["attack", place, "--attack", "quick", "--option", f"steps={FOREVER}"]
    found, said = interrupted([*arguments, *gate], tmp_path)
    assert found == code, said
    scores = RunFolder(place).scores()
    assert len(scores) and scores["partial"].all()
    assert (
        RunFolder(place).attacked("quick", {"steps": FOREVER}) == set()
    )  # it is done again the next time
