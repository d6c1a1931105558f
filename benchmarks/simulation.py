"""What a simulated federation costs beside its training: loop, `inline`, `ray`, stock Flower.

A "plain loop" is what one would write without a federation: load the state, train, average. It and
`inline` take turns, round by round, in one process on one core; their seconds are CPU time. `ray`
and stock Flower take turns too, each in a process of its own; their seconds are those of a clock,
so that they mean something on a quiet machine only. Ray's workers get the same priority in both.
The first round, which pays for the start, is stated apart. The floor of a round is the loop's time
divided by the number of workers.

    python benchmarks/simulation.py [--clients 10 100] [--megabytes 0.2 10] [--rounds 5]
    python benchmarks/simulation.py --many 5000

apple's pfl does the same work in an environment of its own; `_pfl.py` says how.
"""

import argparse
import csv
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, from_tables, read

MODELS = {0.2: {"name": "lenet"}, 10.0: {"name": "mlp", "hidden": [3150]}}  # by megabytes
MANY = {"name": "synthetic", "options": {"train": 10_000, "test": 100, "size": 28, "channels": 1}}


def scenario_of(clients: int, rounds: int, megabytes: float, backend: str) -> Scenario:
    plain = read(
        "quickstart",
        [
            f"federation.clients={clients}",
            f"federation.rounds={rounds}",
            f"federation.backend={backend}",
            "attacks=[]",
            "keep-truth=false",
        ],
    ).plain()
    data = MANY if clients > 1000 else plain["data"]
    return from_tables({**plain, "model": MODELS[megabytes], "data": data})


def plain_loop(scenario: Scenario) -> Iterator[float]:
    """The same work without Flower: CPU seconds of each round."""
    from fedpriv.clients.job import fit, make_job
    from fedpriv.clients.plugin import PrivacyPlugin
    from fedpriv.scenario.built import first_state
    from fedpriv.simulations.federation.contexts import contexts_of
    from fedpriv.state import state_of
    from fedpriv.strategies.app import Evaluation
    from fedpriv.strategies.fedavg import weighted_mean

    contexts = contexts_of(scenario, {"scenario": scenario.text()})
    evaluate, state = Evaluation(scenario), first_state(scenario)
    for server_round in itertools.count(1):
        started = time.process_time()
        ends, weights = [], []
        for context in contexts.values():
            job = make_job(scenario, state, server_round, context)
            metrics = fit(job, PrivacyPlugin().on_batch)
            ends.append(state_of(job.shared))
            weights.append(metrics["num-examples"])
        state = weighted_mean(ends, weights)
        evaluate(state)
        yield time.process_time() - started


def in_turns(scenario: Scenario, out: Path) -> dict[str, list[float]]:
    """CPU seconds of each round of the loop and of `inline`, one after the other."""
    from fedpriv.simulations.federation.progress import PlainLines
    from fedpriv.simulations.federation.run import simulate

    rounds, loop, inline = plain_loop(scenario), list[float](), list[float]()
    begun = time.process_time()

    class Turns(PlainLines):
        def on_round(self, record: dict) -> None:
            nonlocal begun
            inline.append(time.process_time() - begun)
            loop.append(next(rounds))
            begun = time.process_time()

    simulate(scenario, RunFolder(out), Turns(Console(quiet=True)))
    return {"loop": loop, "inline": inline}


def ours(scenario: Scenario, out: Path) -> list[float]:
    """fedpriv's own simulation: seconds of each round, start-up within the first."""
    from fedpriv.simulations.federation.progress import PlainLines
    from fedpriv.simulations.federation.run import simulate

    times = [time.perf_counter()]

    class Clock(PlainLines):
        def on_round(self, record: dict) -> None:
            times.append(time.perf_counter())

    simulate(scenario, RunFolder(out), Clock(Console(quiet=True)))
    return [after - before for before, after in itertools.pairwise(times)]


def stock_flower(scenario: Scenario, out: Path) -> list[float]:
    """The same ClientApp under Flower's `run_simulation` and FedAvg, as its tutorial does it."""
    from flwr.app import ArrayRecord, Context
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    from fedpriv.clients.app import client_app
    from fedpriv.scenario.built import model_of
    from fedpriv.strategies.app import Evaluation

    text, clients = scenario.text(), scenario.federation.clients
    times = [time.perf_counter()]
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        evaluate = Evaluation(scenario)

        def evaluated(server_round: int, arrays: ArrayRecord) -> None:
            evaluate(arrays.to_torch_state_dict())
            if server_round:
                times.append(time.perf_counter())

        FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients).start(
            grid=grid,
            initial_arrays=ArrayRecord(model_of(scenario).state_dict()),
            num_rounds=scenario.federation.rounds,
            evaluate_fn=evaluated,
        )

    def built() -> ClientApp:
        return client_app(lambda run_config: Scenario.of({"scenario": text}))

    run_simulation(
        server_app=app,
        client_app=built(),
        num_supernodes=clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"logging_level": logging.ERROR, "log_to_driver": False},
        },
    )
    return [after - before for before, after in itertools.pairwise(times)]


def pfl(scenario: Scenario, out: Path) -> list[float]:
    """CPU seconds of each round of apple's pfl, on the same samples of the same clients."""
    import numpy as np

    from fedpriv.scenario.built import model_of, shares_of, test_samples, training_samples

    x, y = training_samples(scenario)
    x_test, y_test = test_samples(scenario)
    training, clients = scenario.training, scenario.federation.clients
    kept = {"x-test": x_test, "y-test": y_test}
    for number, share in enumerate(shares_of(scenario, clients)):
        kept |= {f"x{number}": x[share], f"y{number}": y[share]}
    np.savez(
        out.with_suffix(".npz"),
        clients=clients, batch=training.batch_size, lr=training.lr, momentum=training.momentum,
        parameters=sum(value.numel() for value in model_of(scenario).parameters()),
        **{name: value.numpy() for name, value in kept.items()},
    )  # fmt: skip
    (hidden,) = scenario.model.options.get("hidden", [0])
    command = [os.environ[PFL], "-P", str(Path(__file__).with_name("_pfl.py"))]
    numbers = map(str, (out.with_suffix(".npz"), hidden, scenario.federation.rounds))
    done = subprocess.run([*command, *numbers], capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


PFL = "FEDPRIV_BENCHMARK_PFL"  # the Python that has it
WAYS = {"ray": ours, "stock flower": stock_flower, "many": ours, "pfl": pfl}


def measure(way: str, clients: int, rounds: int, megabytes: float) -> dict[str, list[float]]:
    """Seconds of the rounds of one way, or of those that take turns, in this process."""
    import torch

    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    scenario = scenario_of(clients, rounds, megabytes, "ray" if way == "ray" else "inline")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        found = in_turns(scenario, out) if way == "turns" else {way: WAYS[way](scenario, out)}
    peak = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return found | {"peak": [peak / 2**20]}


def in_own_process(way: str, *numbers: float) -> dict[str, list[float]]:
    command = [sys.executable, "-P", __file__, "--one", way, *map(str, numbers)]
    env = os.environ | {"RAY_worker_niceness": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: dict[str, list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--megabytes", type=float, nargs="+", default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", default=["turns", "ray", "stock flower"])
    parser.add_argument("--pfl", help="a Python that has apple's pfl; adds the way `pfl`")
    parser.add_argument("--many", type=int, help="so many clients inline for three rounds, alone")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        way, clients, rounds, megabytes = asked.one
        print(json.dumps(measure(way, int(clients), int(rounds), float(megabytes))))
        return
    if asked.pfl:
        os.environ[PFL] = asked.pfl
        asked.ways = list(dict.fromkeys([*asked.ways, "pfl"]))
    out = csv.writer(sys.stdout)
    out.writerow(["megabytes", "clients", "way", "first round", "later round", "of loop", "GiB"])
    cells = itertools.product(asked.megabytes, asked.clients, asked.ways)
    if asked.many:
        cells = iter([(0.2, asked.many, "many")])
        asked.rounds = 3
    for megabytes, clients, way in cells:
        found = in_own_process(way, clients, asked.rounds, megabytes)
        (peak,) = found.pop("peak")
        for name, seconds in found.items():
            pairs = zip(seconds[1:], found.get("loop", seconds)[1:], strict=True)
            ratio = statistics.median(mine / loop for mine, loop in pairs)
            later = statistics.median(seconds[1:])
            out.writerow(
                [megabytes, clients, name, f"{seconds[0]:.2f}", f"{later:.3f}",
                 f"{ratio:.3f}" if "loop" in found else "", f"{peak:.2f}"]
            )  # fmt: skip
            sys.stdout.flush()


if __name__ == "__main__":
    main()
