"""Clients as Ray actors: the same bytes, a killed actor, a cluster of two nodes, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rays import environment
from recorded import attacked, recording, scores_in
from rich.console import Console

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
from fedpriv.simulations.judging.on_ray import spread_over

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def changed(tiny, **federation):
    plain = tiny.plain()
    return from_tables({**plain, "federation": {**plain["federation"], **federation}})


def run(scenario, path, **options):
    show = options.pop("show", None) or PlainLines(Console(quiet=True))
    return simulate(scenario, RunFolder(Path(path)), show, **options)


@pytest.fixture(scope="module")
def ray():
    from fedpriv.simulations.federation.cluster import cluster

    with cluster(cpus=2):
        import ray

        yield ray


def until(condition, seconds=120.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.05)


def dead(ray, actor):
    try:
        ray.get(actor.__ray_ready__.remote(), timeout=1)
    except ray.exceptions.RayActorError:
        return True
    except ray.exceptions.GetTimeoutError:
        pass
    return False


def test_ray_gives_the_bytes_of_inline(ray, tiny, tmp_path):
    inline = run(tiny, tmp_path / "inline")
    actors = run(changed(tiny, backend="ray"), tmp_path / "ray")
    assert actors.model_file.read_bytes() == inline.model_file.read_bytes()


def test_no_client_is_asked_before_all_have_started(ray, tiny, tmp_path, monkeypatch):
    from fedpriv.simulations.federation import actors
    from fedpriv.strategies import roster

    started = tmp_path / "started"

    def slow(threads, scenario):
        time.sleep(2)
        (started / str(os.getpid())).touch()

    before, asked = roster.Roster._ask, []
    monkeypatch.setattr(actors, "warm", slow)
    monkeypatch.setattr(
        roster.Roster,
        "_ask",
        lambda *given: (asked.append(len(list(started.iterdir()))), before(*given)),
    )
    started.mkdir()
    run(changed(tiny, backend="ray"), tmp_path / "ray")
    assert asked[0] == 2


def test_a_killed_client_is_named_and_the_run_goes_on(ray, tiny, tmp_path, monkeypatch):
    from fedpriv.simulations.federation.actors import ActorBackend

    lock, killed = threading.Lock(), []

    class Fragile(ActorBackend):
        def process_message(self, message, context):
            with lock:  # nobody is answered before the actor that comes first is dead
                if message.metadata.message_type == "train" and not killed:
                    killed.append(self._alive[0])
                    ray.kill(killed[0])
                    until(lambda: dead(ray, killed[0]))
            return super().process_message(message, context)

    monkeypatch.setattr("fedpriv.simulations.federation.actors.ActorBackend", Fragile)
    rounds = run(changed(tiny, backend="ray"), tmp_path / "ray").rounds()
    assert [failure["why"] for failure in rounds[0]["failed"]] == [
        "WorkFailed: the client's process died"
    ]
    assert [r["clients"] for r in rounds] == [3, 4, 4]


def test_a_client_that_hangs_is_left_behind(ray, tiny, tmp_path):
    """Partition 1 sleeps for ever in round 2; the others wait no longer than the time-out."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    from fedpriv.clients.app import app as honest
    from fedpriv.scenario.built import first_state
    from fedpriv.simulations.federation.actors import ActorBackend
    from fedpriv.simulations.federation.contexts import contexts_of
    from fedpriv.simulations.federation.grid import SimulationGrid
    from fedpriv.wire import record_of

    def slow_app():
        app = ClientApp()

        @app.train()
        def train(message, context):
            late = message.content["config"]["server-round"] == 2
            if late and context.node_config["partition-id"] == 1:
                time.sleep(3600)
            return honest(message, context)

        return app

    scenario = changed(tiny, backend="ray")
    backend = ActorBackend(scenario)
    backend.build(slow_app)
    grid = SimulationGrid(backend, contexts_of(scenario, {"scenario": scenario.text()}))

    def replies_in(round_, **limits):
        config = ConfigRecord({"server-round": round_})
        content = RecordDict({"arrays": record_of(first_state(scenario)), "config": config})
        messages = [Message(content, node, "train") for node in grid.get_node_ids()]
        return grid.send_and_receive(messages, **limits)

    assert len(replies_in(1)) == 4  # all actors have started, imported and trained
    replies = replies_in(2, timeout=20)
    grid.close()
    answered = {grid.contexts[r.metadata.src_node_id].node_config["partition-id"] for r in replies}
    assert answered == {0, 2, 3}


def test_workers_find_the_scores_of_one_process(ray, tiny, tmp_path):
    recorded = recording(tiny, tmp_path / "run")
    attacks = [Attack(name="linear"), Attack(name="dlg", options={"steps": 3}, victims=3)]
    here, _ = attacked(recorded, tmp_path / "here", attacks)
    told = []
    with spread_over(workers=2) as spread:
        there, found = attacked(
            recorded,
            tmp_path / "there",
            attacks,
            spread=spread,
            tell=lambda *line: told.append(line),
        )
        assert len(spread.stored) == 2  # all victims, and the first three: each put there once
    assert not found.failures and not found.partial
    assert scores_in(there) == scores_in(here)
    assert {(name, done) for name, done, total in told if done == total} == {
        ("linear", 12),
        ("dlg", 3),
    }


CLUSTER = """
import json, sys
from pathlib import Path
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes(timeout=120)
from rich.console import Console
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.simulations.federation.progress import PlainLines
from fedpriv.simulations.federation.run import simulate
import ray
scenario = Scenario.of({"scenario": sys.argv[1]})
show = PlainLines(Console(quiet=True))
simulate(scenario, RunFolder(Path(sys.argv[2])), show, ray_address=cluster.address)
ray.init(address=cluster.address, log_to_driver=False)
print(json.dumps({"nodes": sum(node["Alive"] for node in ray.nodes())}))
ray.shutdown()
cluster.shutdown()
"""


def test_a_cluster_of_two_nodes_is_joined(tiny, tmp_path):
    """In a process of its own: a cluster started here must not meet the other tests' Ray."""
    inline = run(tiny, tmp_path / "inline")
    scenario = changed(tiny, backend="ray")
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, scenario.text(), str(tmp_path / "ray")],
        capture_output=True, text=True, timeout=500, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.strip().splitlines()[-1])["nodes"] == 2
    there = RunFolder(tmp_path / "ray")
    assert there.model_file.read_bytes() == inline.model_file.read_bytes()


def test_ctrl_c_leaves_a_folder_that_resumes_to_the_same_weights(tiny, tmp_path):
    scenario = changed(tiny, rounds=400)
    file = tmp_path / "long.toml"
    file.write_text(scenario.toml())
    out = tmp_path / "cut"
    process = subprocess.Popen(
        [sys.executable, "-c", START, "run", str(file), "--out", str(out)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(),
    )  # fmt: skip
    lines = RunFolder(out).rounds_file

    def two_rounds():
        assert process.poll() is None, process.stderr.read()
        return lines.exists() and lines.read_text().count("\n") >= 2

    until(two_rounds, 300)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "--resume" in said
    done = RunFolder(out).last_round()["round"]
    assert 2 <= done < 400

    rounds = done + 3
    for path in (out / "scenario.toml", file):
        path.write_text(changed(tiny, rounds=rounds).toml())
    resumed = run(changed(tiny, rounds=rounds), out, resume=True)
    whole = run(changed(tiny, rounds=rounds), tmp_path / "whole")
    assert resumed.model_file.read_bytes() == whole.model_file.read_bytes()


# A shell that starts jobs in the background makes them ignore SIGINT, and children inherit that.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fedpriv.simulations.cli import main
main()
"""
