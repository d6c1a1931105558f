"""The SuperLink's database after a run: no array of anybody is left in its files."""

import sqlite3
import threading
import time

import pytest
from flwr.supercore.constant import TaskType
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.superlink.federation import NoOpFederationManager

from fedpriv.simulations.deploy.superlink import PRAGMAS, ForgetfulLinkState, empty_journal, in_turn

SECRET = b"weights-of-a-client" * 400


@pytest.fixture
def link(tmp_path, monkeypatch):
    """A SuperLink's database as our launcher sets it up, and its folder."""
    from flwr.supercore import sql_mixin

    monkeypatch.setattr(sql_mixin, "SQLITE_PRAGMAS", (*sql_mixin.SQLITE_PRAGMAS, *PRAGMAS))
    monkeypatch.setattr(sql_mixin.SqlMixin, "session", in_turn(sql_mixin.SqlMixin.session))
    path = tmp_path / "superlink.db"

    def opened():
        store = SqlObjectStore(str(path), verify=False)
        store.initialize()
        state = ForgetfulLinkState(str(path), NoOpFederationManager(), store)
        state.initialize()
        return state

    return opened, tmp_path


def run_with_arrays(state):
    """A run whose reply nobody has confirmed; its number and its task."""
    from flwr.proto.message_pb2 import ObjectTree

    run = state.create_run(
        fab_id=None,
        fab_version=None,
        fab_hash="0" * 64,
        override_config={},
        federation_id="",
        federation_config=None,
        flwr_aid="owner",
        primary_task_type=TaskType.SERVER_APP,
    )
    name = "a" * 64
    state.object_store.preregister(run, ObjectTree(object_id=name))
    state.object_store.put(name, SECRET)
    (found,) = state.get_run_info(run_ids=[run])
    return run, found.primary_task_id


def left(folder):
    """The files of the database in which the arrays can still be read."""
    return [path.name for path in folder.glob("superlink.db*") if SECRET[:64] in path.read_bytes()]


def gone(folder, seconds=20.0):
    ends = time.monotonic() + seconds
    while left(folder) and time.monotonic() < ends:
        time.sleep(0.1)
    return not left(folder)


def test_a_finished_run_leaves_nothing(link):
    opened, folder = link
    state = opened()
    _, task = run_with_arrays(state)
    assert left(folder)
    assert state.finish_task(task, "failed", "it broke down")
    assert gone(folder), left(folder)
    assert len(state.object_store) == 0


def test_a_run_that_goes_on_keeps_its_arrays(link):
    opened, folder = link
    state = opened()
    run_with_arrays(state)
    state.forget_finished()
    assert left(folder) and len(state.object_store) == 1


def test_what_a_killed_superlink_left_goes_when_it_starts_again(link):
    opened, folder = link
    state = opened()
    _, task = run_with_arrays(state)
    super(ForgetfulLinkState, state).finish_task(task, "failed", "")  # and then it was killed
    assert left(folder)
    opened()
    assert gone(folder), left(folder)


def test_a_reader_delays_the_emptying_and_does_not_prevent_it(link):
    opened, folder = link
    state = opened()
    _, task = run_with_arrays(state)
    reader = sqlite3.connect(folder / "superlink.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM run").fetchone()
    state.finish_task(task, "failed", "")
    time.sleep(0.3)
    assert left(folder)  # the reader still needs the journal
    reader.close()
    assert gone(folder), left(folder)


def test_many_who_write_at_once_all_succeed(link):
    opened, _ = link
    state = opened()
    failed = []

    def write():
        try:
            for _ in range(5):
                run_with_arrays(state)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed and len(state.get_run_info()) == 160


def test_an_empty_journal_stays_empty(tmp_path):
    path = tmp_path / "x.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE a (b)")
    connection.commit()
    empty_journal(str(path))
    assert (tmp_path / "x.db-wal").stat().st_size == 0
