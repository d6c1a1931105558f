"""Attacks on Ray: the scores of one process, shares of GPUs, an early end, a node that dies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rays import environment
from recorded import attacked, recording, scores_in
from witness import begun, most_at_once

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.on_ray import spread_over

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def ray():
    """Five workers on two GPUs, so that at half a GPU each it is the GPUs that are scarce."""
    from fedpriv.simulations.federation.cluster import cluster

    helpers = str(Path(sys.modules[most_at_once.__module__].__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", helpers)  # where workers find the attack
        with cluster(cpus=5, gpus=2):
            import ray

            yield ray


@pytest.fixture
def recorded(tiny, tmp_path):
    return recording(tiny, tmp_path / "run")


@pytest.fixture
def place(tmp_path):
    """Where witnesses write down what they see."""
    (tmp_path / "seen").mkdir()
    return tmp_path / "seen"


def test_calls_of_attacks_share_two_gpus_and_never_more(ray, recorded, tmp_path, place):
    attacks = [
        Attack(
            name="witness:Witness",
            options={"place": str(place), "number": number, "together": 4},
        )
        for number in range(6)
    ]
    with spread_over(gpus=0.5) as spread:
        _, found = attacked(recorded, tmp_path / "there", attacks, spread=spread)
    assert not found.failures
    assert most_at_once(place) == (4, {0: 2, 1: 2}) and begun(place) == 6


def test_cells_of_a_sweep_share_two_gpus_and_never_more(ray, tmp_path, place):
    from fedpriv.simulations.sweep.sweep import sweep
    from fedpriv.sweepfolder import SweepFolder

    witness = "witness:Witness"
    grid = {
        "name": "grid",
        "data": {"name": "synthetic"},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"lr": 0.1, "batch-size": 32},
        "federation": {"clients": 2, "rounds": 1, "gpus-per-client": 0.5},
        "sweep": {
            "attacks": [witness], "batch-sizes": [1, 2, 3, 4, 5], "victims": 1, "at": 0.0,
            "options": {witness: {"place": str(place), "together": 4}},
        },
        "defences": [{"name": "none"}],
    }  # fmt: skip
    rows = sweep(from_tables(grid), SweepFolder(tmp_path / "sweep"))["rows"]
    assert len(rows) == 5 and not [row["error"] for row in rows if "error" in row]
    assert most_at_once(place) == (4, {0: 2, 1: 2}) and begun(place) == 5


def test_what_was_found_before_a_stop_is_kept_as_partial(ray, recorded, tmp_path, place):
    options = {"place": str(place), "together": 99}  # waits until it is told to stop
    attacks = [Attack(name="linear"), Attack(name="witness:Witness", options=options)]
    there = RunFolder(tmp_path / "there")

    def progress(part, loss):
        return not (begun(place) and len(list(there.claims("linear"))) == 12)

    with spread_over(workers=2) as spread:
        _, found = attacked(recorded, there.path, attacks, spread=spread, progress=progress)
    assert found.partial
    claims = {label: list(there.claims(label)) for label in ("linear", "witness.Witness")}
    assert len(claims["linear"]) == 12 and not any(one.partial for one in claims["linear"])
    assert len(claims["witness.Witness"]) == 12
    assert all(one.partial for one in claims["witness.Witness"])


CLUSTER = """
import json, sys, threading, time
from pathlib import Path
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
cluster.wait_for_nodes(timeout=300)
import fedpriv
run, out, dies = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "dies"
lines = []


def end():
    cluster.remove_node(second, allow_graceful=False)
    lines.append("died")


from fedpriv.runfolder import RunFolder
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.judging.judge import scored_claims
from fedpriv.simulations.judging.on_ray import spread_over
from fedpriv.simulations.judging.recordings import of_run
folder = RunFolder(run)
attacks = [Attack(name="adam+cosine", options={"steps": steps}) for steps in (800, 801, 802, 803)]
with spread_over(cluster.address) as spread:
    import ray
    here = ray.get_runtime_context().get_node_id()
    whose = lambda board: __import__("ray").get_runtime_context().get_node_id()
    assert ray.get(spread.board.notes.__ray_call__.remote(whose)) == here


    def watch():
        while dies and "died" not in lines:
            time.sleep(0.5)
            parts = ray.get(spread.board.notes.read.remote())
            if len([part for part in parts.values() if 0 < part < 1]) >= 2:
                end()


    watcher = threading.Thread(target=watch)
    watcher.start()
    found = scored_claims(
        of_run(folder), attacks, RunFolder(out), truth_of=folder.truth_of, spread=spread
    )
    watcher.join()
    alive = sum(node["Alive"] for node in ray.nodes())
print(json.dumps({"failures": len(found.failures), "alive": alive}))
cluster.shutdown()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("fate", "alive"), [("lives", 2), ("dies", 1)])
def test_a_cluster_of_two_nodes_finds_the_scores_of_one_process(recorded, tmp_path, fate, alive):
    """In a process of its own: a cluster started here must not meet the other tests' Ray."""
    attacks = [Attack(name="adam+cosine", options={"steps": n}) for n in (800, 801, 802, 803)]
    here, _ = attacked(recorded, tmp_path / "here", attacks)
    done = subprocess.run(
        [sys.executable, "-c", CLUSTER, recorded.path, tmp_path / "there", fate],
        capture_output=True, text=True, timeout=500, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert said == {"failures": 0, "alive": alive}
    assert scores_in(RunFolder(Path(tmp_path / "there"))) == scores_in(here)
