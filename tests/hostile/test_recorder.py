"""The recorder's budget: what `du` says of the folder, and what an earlier run left counts."""

import subprocess

import torch
from enemy import rounds_of, world
from flwr.app import ConfigRecord, Message

from fedpriv.scenario import from_tables
from fedpriv.strategies.curious import Exchange
from fedpriv.strategies.recorder import record_to
from fedpriv.wire import content, reply

STATE = {"w": torch.zeros(30, 40)}


def exchange(server_round, node=2):
    sent = Message(content(STATE, config=ConfigRecord({"lr": 0.1})), node, "train")
    return Exchange(server_round, node, sent, reply(sent, STATE, {"num-examples": 1}))


def du(folder):
    """What the system's own tool says the files of a folder take."""
    files = [str(path) for path in folder.iterdir()]
    found = subprocess.run(
        ["du", "--block-size=1", "--total", *files], capture_output=True, text=True, check=True
    )
    return int(found.stdout.splitlines()[-1].split()[0])


def test_the_budget_is_what_du_says(tmp_path):
    recorder = record_to(tmp_path)
    for number in range(1, 6):
        recorder(exchange(number))
    assert recorder.bytes == du(tmp_path) > 5 * STATE["w"].nbytes * 2


def test_a_file_that_is_written_again_counts_once(tmp_path):
    recorder = record_to(tmp_path)
    for _ in range(3):
        recorder(exchange(1))
    assert recorder.bytes == du(tmp_path)


def test_a_resumed_run_does_not_get_its_budget_again(tmp_path):
    first = record_to(tmp_path)
    first(exchange(1))
    budget = first.bytes
    again = record_to(tmp_path, max_bytes=budget)
    again(exchange(2))
    assert again.bytes == budget == du(tmp_path)
    assert not list(tmp_path.glob("2-*"))


def test_sums_are_kept_and_counted(tmp_path):
    tables = world(federation={"secagg": True}).plain()
    scenario = from_tables(tables | {"attacks": [{"name": "dlg", "rounds": [1, 2]}]})
    kinds = {"first": (lambda r, m: r, ""), "second": (lambda r, m: r, "")}
    rounds_of(kinds, scenario=scenario, observe=tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["1-3", "2-3"]
    assert record_to(tmp_path).bytes == du(tmp_path)
