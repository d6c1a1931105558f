"""A client's memory on disk outlives a restart, its budget a run; others cannot read it."""

import stat
import sys

import pytest
import torch
from messages import context_of as own_context
from messages import message_of

from fedpriv.clients.protection.persistence import persistent
from fedpriv.errors import Refused
from fedpriv.wire import Memory


@pytest.fixture(autouse=True)
def no_ray(monkeypatch):
    """A client in a process with Ray counts as simulated; an earlier test may have started Ray."""
    monkeypatch.delitem(sys.modules, "ray", raising=False)


def context_of(tiny, folder, run=1):
    return own_context(tiny, run=run, secret_seed=None, state_folder=str(folder))


def handled(context, server_round, remember=None):
    """What a handler finds in memory; then it remembers something."""
    found = {}

    def handler(message, context):
        memory = Memory(context.state)
        found.update(head=memory.recall("spn"), spent=memory.facts("dp").get("steps"))
        if remember is not None:
            memory.remember("spn", {"w": torch.tensor([float(remember)])})
            memory.note("dp", {"steps": remember})
        return message

    persistent(message_of(None, server_round), context, handler)
    return found


def test_memory_outlives_a_restart_within_a_run(tiny, tmp_path):
    handled(context_of(tiny, tmp_path), 1, remember=5)
    found = handled(context_of(tiny, tmp_path), 1)
    assert found["head"]["w"].item() == 5 and found["spent"] == 5


def test_a_resumed_run_goes_on_with_it_and_a_new_one_does_not(tiny, tmp_path):
    handled(context_of(tiny, tmp_path, run=1), 3, remember=5)
    assert handled(context_of(tiny, tmp_path, run=2), 1)["head"] is None
    handled(context_of(tiny, tmp_path, run=2), 3, remember=6)
    assert handled(context_of(tiny, tmp_path, run=3), 4)["head"]["w"].item() == 6


def test_what_was_spent_is_never_forgotten(tiny, tmp_path):
    handled(context_of(tiny, tmp_path, run=1), 1, remember=5)
    assert handled(context_of(tiny, tmp_path, run=2), 1)["spent"] == 5


def test_a_question_before_the_first_round_changes_nothing(tiny, tmp_path):
    handled(context_of(tiny, tmp_path, run=1), 3, remember=5)
    context = context_of(tiny, tmp_path, run=2)
    handled(context, None)
    assert handled(context, 4)["head"]["w"].item() == 5


def test_two_tasks_do_not_share_a_head(tiny, tmp_path):
    from fedpriv.scenario import from_tables

    other = from_tables({**tiny.plain(), "model": {"name": "mlp", "hidden": [8]}})
    handled(context_of(tiny, tmp_path, run=1), 2, remember=5)
    assert handled(context_of(other, tmp_path, run=2), 2)["head"] is None


def test_files_are_for_the_owner_only(tiny, tmp_path):
    folder = tmp_path / "state"
    handled(context_of(tiny, folder), 1, remember=1)
    files = list(folder.iterdir())
    assert {path.name for path in files} > {"ledger.bin", "enrolled", "lock", "ledger.lock"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["ledger.bin", "*.bin"])
def test_a_damaged_file_is_named_to_the_owner(tiny, tmp_path, name, caplog):
    handled(context_of(tiny, tmp_path), 1, remember=1)
    for path in tmp_path.glob(name):
        path.write_bytes(b"\xff\xff\xff")
    with pytest.raises(Refused, match="its owner must restore"):
        handled(context_of(tiny, tmp_path), 1)
    assert "ledger.bin" in caplog.text


def test_what_was_charged_stays_charged_when_the_message_breaks_down(tiny, tmp_path):
    def broken(message, context):
        Memory(context.state).note("dp", {"steps": 9})
        raise RuntimeError("after the charge")

    with pytest.raises(RuntimeError):
        persistent(message_of(None, 1), context_of(tiny, tmp_path), broken)
    assert handled(context_of(tiny, tmp_path), 1)["spent"] == 9


def test_a_simulated_client_keeps_nothing(tiny, tmp_path):
    context = context_of(tiny, tmp_path)
    context.node_config["secret-seed"] = 1
    handled(context, 1, remember=1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("server_round", ["2", 2.0, True, 0])
def test_a_round_that_is_no_number_does_not_pass_the_ledger_by(tiny, tmp_path, server_round):
    handled(context_of(tiny, tmp_path), 1, remember=5)
    with pytest.raises(Refused, match="server-round"):
        handled(context_of(tiny, tmp_path, run=2), server_round, remember=0)
    assert handled(context_of(tiny, tmp_path, run=3), 1)["spent"] == 5
