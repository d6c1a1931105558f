"""A client that runs out of memory beside others is named, and tried again alone."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from ray import cloudpickle
from rich.console import Console

from fedpriv.clients.app import app as honest
from fedpriv.flower import Backend
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables, merged
from fedpriv.scenario.built import first_state
from fedpriv.simulations.federation.contexts import contexts_of
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.simulations.federation.out_of_memory import answering, out_of_memory, ran_out
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.wire import record_of, refusal


class OneGPU(Backend):
    """Two workers on a device with room for so much; a client of partition p needs p + 1."""

    num_workers = 2

    def __init__(self, room):
        self.room, self.taken, self.lock = room, 0, threading.Lock()
        self.alone, self.rooms_made = [], 0
        self.met = threading.Barrier(2)

    def build(self, app_fn=None):
        self.app = answering(lambda: self.client)

    def is_worker_idle(self):
        return True

    def terminate(self):
        pass

    def make_room(self):
        assert self.taken == 0  # nobody else is at work
        self.rooms_made += 1

    def client(self, message, context):
        needs = context.node_config["partition-id"] + 1
        with self.lock:
            self.taken += needs
        try:
            if not self.rooms_made:
                self.met.wait(60)  # both have taken what they need
            with self.lock:
                short = self.taken > self.room
            if not self.rooms_made:
                self.met.wait(60)
            if short and needs > 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return honest(message, context)
        finally:
            with self.lock:
                self.taken -= needs

    def process_message(self, message, context):
        return self.app(message, context), context


def messages_of(scenario, grid):
    config = ConfigRecord({"server-round": 1})
    content = RecordDict({"arrays": record_of(first_state(scenario)), "config": config})
    return [Message(content, node, "train") for node in grid.get_node_ids()]


class Refusing(Backend):
    """Two workers whose clients refuse."""

    num_workers = 2

    def __init__(self):
        self.asked = []

    def build(self, app_fn=None):
        pass

    def is_worker_idle(self):
        return True

    def terminate(self):
        pass

    def process_message(self, message, context):
        self.asked.append(message.metadata.dst_node_id)
        return refusal(message, "not with me"), context


@pytest.fixture
def two(tiny):
    return from_tables(merged(tiny.plain(), {"federation": {"clients": 2}}))


@pytest.mark.parametrize(("room", "short"), [(3, []), (2, []), (1, [1])])
def test_it_is_tried_again_when_nobody_else_works(two, room, short, caplog):
    backend = OneGPU(room)
    backend.build()
    grid = SimulationGrid(backend, contexts_of(two, {"scenario": two.text()}))
    replies = grid.send_and_receive(messages_of(two, grid))
    grid.close()
    places = {n: c.node_config["partition-id"] for n, c in grid.contexts.items()}
    failed = [places[r.metadata.src_node_id] for r in replies if r.has_error()]
    assert sorted(places[r.metadata.src_node_id] for r in replies) == [0, 1]
    assert failed == short and backend.rooms_made == (room < 3)
    assert ("client 1 ran out of memory" in caplog.text) == (room < 3)
    assert all("out of memory" in r.error.reason for r in replies if r.has_error())
    assert all(ran_out(r) for r in replies if r.has_error())


def test_a_second_try_has_no_more_than_the_time_that_is_left(two):
    ended = threading.Event()
    backend = OneGPU(room=2)
    backend.app = lambda message, context: ended.wait(60)  # alone it hangs
    grid = SimulationGrid(backend, contexts_of(two, {"scenario": two.text()}))
    message = messages_of(two, grid)[0]
    failed = out_of_memory(message, "CUDA out of memory.")
    assert grid.alone(message, failed, time.monotonic() - 1) is failed and not backend.rooms_made
    assert grid.alone(message, failed, time.monotonic() + 0.3) is failed and backend.rooms_made
    ended.set()
    grid.close()


def crowded(marker):
    """The app of clients of which partition 1 has no memory at the end of its first training."""

    def answer(message, context):
        reply = honest(message, context)
        first = context.node_config["partition-id"] == 1 and not marker.exists()
        if first and message.metadata.message_type == "train":
            marker.touch()
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return reply

    return answer


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_failed_leaves_nothing_behind(tiny, tmp_path, monkeypatch, caplog):
    """The account of dp too counts the training that was answered, and not the one that failed."""
    from fedpriv.simulations.federation.actors import ActorBackend
    from fedpriv.simulations.federation.cluster import cluster

    marker = tmp_path / "failed once"

    class Crowded(ActorBackend):
        def build(self):
            super().build(lambda: crowded(marker))

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("fedpriv.simulations.federation.actors.ActorBackend", Crowded)
    own = {"plugins": [{"name": "dp", "epsilon": 8.0}]}
    quiet = PlainLines(Console(quiet=True))
    runs = []
    with cluster(cpus=2):
        for backend in ("inline", "ray"):
            federation = {"federation": {"rounds": 2, "backend": backend}}
            scenario = from_tables(merged(tiny.plain(), own | federation))
            runs.append(simulate(scenario, RunFolder(tmp_path / backend), quiet))
    inline, ray = runs
    assert marker.exists() and "client 1 ran out of memory" in caplog.text
    assert [record["clients"] for record in ray.rounds()] == [4, 4]
    assert [r["train-epsilon"] for r in ray.rounds()] == [
        r["train-epsilon"] for r in inline.rounds()
    ]
    assert ray.model_file.read_bytes() == inline.model_file.read_bytes()


def test_actors_that_do_not_start_are_named(monkeypatch, caplog):
    """Other work may hold the cores of a cluster, for hours."""
    from fedpriv.simulations.federation import actors

    def one_by_one(starting, at_look):
        at_look()
        return starting[-1]

    monkeypatch.setattr(actors, "first_ready", one_by_one)
    monkeypatch.setattr(actors, "SLOW", 0.0)
    backend = actors.ActorBackend.__new__(actors.ActorBackend)
    ready = SimpleNamespace(remote=object)
    backend._alive = [SimpleNamespace(__ray_ready__=ready) for _ in range(3)]
    backend.wait()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and said[0].startswith("3 of 3 Ray workers have not started")


def test_a_client_that_refuses_has_not_run_out_of_memory(two, caplog):
    backend = Refusing()
    grid = SimulationGrid(backend, contexts_of(two, {"scenario": two.text()}))
    replies = grid.send_and_receive(messages_of(two, grid))
    grid.close()
    assert not any(map(ran_out, replies)) and len(replies) == 2
    assert sorted(backend.asked) == sorted(grid.get_node_ids())
    assert "memory" not in caplog.text
