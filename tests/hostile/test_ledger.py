"""A server, a crash or a careless hand tries to get a spent budget back."""

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from real_clients import DP, TERMS, RealClient, asked_for

ROUNDS = [
    *("1", "", 1.0, True, False, 0, -1, 2**62, 10**9),
    *(None, [1], b"1"),
]
FIVE = {"local-steps": 5}
KNOWN = DP + "samples = 128\n"  # a noised count may be so low that one round spends it all


def spent_client(tmp_path):
    """A client whose dp budget is used up, and the scenario that did it."""
    client = RealClient(tmp_path, TERMS + KNOWN)
    scenario, done = asked_for(training=FIVE), 0
    while client.answers(scenario, done + 1):
        done += 1
    assert 1 <= done < 30
    return client, scenario


def test_no_server_gets_a_spent_budget_back(tmp_path):
    client, scenario = spent_client(tmp_path)
    for server_round in ROUNDS:
        assert not client.answers(scenario, server_round), server_round
    for run in (2, 3):
        assert not client.answers(scenario, 1, run=run)
    other = asked_for(name="other", model={"name": "mlp", "hidden": [8]}, training=FIVE)
    assert not client.answers(other, 1, run=4)
    theirs = asked_for(plugins=[{"name": "dp", "noise-multiplier": 1e-3, "budget": 1e9}])
    assert not client.answers(theirs, 1, run=5)


@pytest.mark.parametrize("server_round", ROUNDS, ids=repr)
@pytest.mark.parametrize("kind", ["train", "evaluate", "train.standalone", "train.encoder"])
def test_a_round_that_is_none_is_refused_by_every_kind_of_message(tmp_path, kind, server_round):
    known = '"train", "evaluate", "train.standalone", "train.encoder"'
    client = RealClient(tmp_path, f'messages = [{known}]\nlayers = [""]\n{TERMS}')
    scenario = asked_for(representation={}, training={"holdout": 0.5})
    assert "server-round" in client.why(scenario, server_round, kind)


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder, _: (folder / "ledger.bin").unlink(),
        lambda folder, _: (folder / "ledger.bin").write_bytes(b""),
        lambda folder, _: (folder / "ledger.bin").write_bytes(b"\0"),
        lambda folder, _: os.truncate(folder / "ledger.bin", 40),
        lambda folder, before: shutil.copy(before / "ledger.bin", folder),
        lambda folder, _: (folder / "enrolled").write_text(""),
        lambda folder, _: [(folder / name).unlink() for name in ("ledger.bin", "enrolled")],
    ],
    ids=["deleted", "emptied", "overwritten", "cut", "older", "stamp emptied", "both deleted"],
)
def test_a_client_without_its_ledger_stops(tmp_path, harm):
    client = RealClient(tmp_path)
    scenario = asked_for()
    assert client.answers(scenario, 1)
    shutil.copytree(client.folder, tmp_path / "before")
    assert client.answers(scenario, 2)
    harm(client.folder, tmp_path / "before")
    for kind, server_round in (("train", 3), ("query", None)):
        reason = client.why(scenario, server_round, kind)
        assert "owner must restore" in reason and str(tmp_path) not in reason


def test_a_crash_between_ledger_and_stamp_stops_nobody(tmp_path):
    client = RealClient(tmp_path)
    assert client.answers(asked_for(), 1)
    stamp = (client.folder / "enrolled").read_text()
    assert client.answers(asked_for(), 2)
    (client.folder / "enrolled").write_text(stamp)
    assert client.answers(asked_for(), 3)
    (client.folder / "enrolled").unlink()
    assert client.answers(asked_for(), 4)
    assert not client.answers(asked_for(), 4)


@pytest.mark.parametrize("kind", ["train", "train.standalone", "evaluate"])
def test_a_round_is_answered_once(tmp_path, kind):
    """`noise` is in no account: 900 answers to one round would average it away."""
    client = RealClient(tmp_path, f'messages = ["{kind}"]\n{TERMS}')
    scenario = asked_for(training={"holdout": 0.5})
    assert client.answers(scenario, 5, kind)
    assert "round 5" in client.why(scenario, 5, kind)
    assert not client.answers(scenario, 4, kind)
    assert client.answers(scenario, 6, kind)
    assert client.answers(scenario, 6, kind, run=2)


def test_the_owner_limits_a_day_over_all_runs(tmp_path, monkeypatch):
    client = RealClient(tmp_path, "rounds-per-day = 3\n" + TERMS)
    scenario = asked_for()
    assert [client.answers(scenario, 1, run=run) for run in range(5)] == [True] * 3 + [False] * 2
    later = time.time() + 86_401
    monkeypatch.setattr("fedpriv.clients.protection.ledger.time.time", lambda: later)
    assert client.answers(scenario, 1, run=9)


def test_a_round_after_the_last_one_is_refused(tmp_path):
    client = RealClient(tmp_path)
    assert "2 rounds" in client.why(asked_for(federation={"rounds": 2}), 3)


def test_an_owner_is_told_what_left_before_dp_was_on(tmp_path, caplog):
    """An ε that begins after two bare updates is no ε of all that left."""
    client, scenario = RealClient(tmp_path), asked_for(training=FIVE)
    assert all(client.answers(scenario, number) for number in (1, 2))
    client.owner_says(TERMS + KNOWN)
    assert "in no ε" not in caplog.text
    assert client.answers(scenario, 3)
    assert "2 answer(s)" in caplog.text and "in no ε" in caplog.text


def test_two_runs_at_once_get_one_budget(tmp_path):
    client = RealClient(tmp_path, "rounds-per-day = 4\n" + TERMS)
    got = []

    def serve(run):
        got.extend(client.answers(asked_for(), number, run=run) for number in (1, 2, 3))

    threads = [threading.Thread(target=serve, args=(run,)) for run in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(got) == 4 and len(got) == 9


def test_what_leaves_is_on_the_disk_before(tmp_path, monkeypatch):
    """In order: the ledger is flushed, then named, then the name is flushed; then training."""
    client = RealClient(tmp_path)
    done = []
    real, moved = os.fsync, Path.replace

    def fsync(number):
        done.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        real(number)

    def replace(path, target):
        done.append(f"moved {target.name}")
        return moved(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr("fedpriv.clients.app.fit", lambda *_: done.append("trained") or {"loss": 0})
    client.ask(asked_for())
    first = done.index("moved ledger.bin")
    assert ".ledger.bin." in done[first - 1] and done[first + 1] == str(client.folder)
    last = len(done) - 1 - done[::-1].index("moved ledger.bin")
    assert first < done.index("trained") and done[last + 1] == str(client.folder)


def test_a_full_disk_lets_nothing_out(tmp_path, monkeypatch):
    client = RealClient(tmp_path)
    assert client.answers(asked_for(), 1)

    def full(*_):
        raise OSError(28, "No space left on device", str(client.folder))

    monkeypatch.setattr(os, "fsync", full)
    assert str(tmp_path) not in client.why(asked_for(), 2)
