"""Client updates a second: a plain loop, `inline`, `ray`, and stock Flower.

Everything runs in one process tree, one after another, on quickstart's model and data. A "plain
loop" is what one would write without a federation: load the state, train, average. Times are per
round; the first round, which pays for start-up, is stated apart.

    python benchmarks/simulation.py [--clients 10 100] [--rounds 5] [--thousand]
"""

import argparse
import itertools
import json
import logging
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario, read


def scenario_of(clients: int, rounds: int, backend: str) -> Scenario:
    return read(
        "quickstart",
        [
            f"federation.clients={clients}",
            f"federation.rounds={rounds}",
            f"federation.backend={backend}",
            "attacks=[]",
            "keep-truth=false",
        ],
    )


def plain_loop(scenario: Scenario, out: Path) -> list[float]:
    """The same work without Flower: seconds of each round."""
    from fedpriv.clients.job import fit, make_job
    from fedpriv.clients.plugin import PrivacyPlugin
    from fedpriv.scenario.built import first_state
    from fedpriv.simulations.federation.contexts import contexts_of
    from fedpriv.state import state_of
    from fedpriv.strategies.app import Evaluation
    from fedpriv.strategies.fedavg import weighted_mean

    contexts = contexts_of(scenario, {"scenario": scenario.text()})
    evaluate, state, seconds = Evaluation(scenario), first_state(scenario), []
    for server_round in range(1, scenario.federation.rounds + 1):
        started = time.perf_counter()
        ends, weights = [], []
        for context in contexts.values():
            job = make_job(scenario, state, server_round, context)
            metrics = fit(job, PrivacyPlugin().on_batch)
            ends.append(state_of(job.shared))
            weights.append(metrics["num-examples"])
        state = weighted_mean(ends, weights)
        evaluate(state)
        seconds.append(time.perf_counter() - started)
    return seconds


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


WAYS = {"loop": plain_loop, "inline": ours, "ray": ours, "stock flower": stock_flower}


def measure(way: str, clients: int, rounds: int) -> dict[str, float]:
    """One way in this process: its steady round, its first round, its memory."""
    import torch

    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    backend = "ray" if way == "ray" else "inline"
    with TemporaryDirectory() as folder:
        seconds = WAYS[way](scenario_of(clients, rounds, backend), Path(folder) / "run")
    # Fmt: skip
    peak = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    steady = statistics.median(seconds[1:])
    return {"first": seconds[0], "steady": steady, "peak": peak / 2**20}


def in_own_process(way: str, clients: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, "-P", __file__, "--one", way, "--clients", str(clients)]
    done = subprocess.run(
        [*command, "--rounds", str(rounds)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--thousand", action="store_true", help="also 1,000 clients, 3 rounds")
    parser.add_argument("--one", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.clients[0], options.rounds)))
        return
    table = Table(
        *("clients", "way", "first round s", "round s", "updates/s", "over loop"),
        *("ms/message over loop", "peak GiB"),
    )
    for clients in options.clients:
        results = {way: in_own_process(way, clients, options.rounds) for way in WAYS}
        loop = results["loop"]["steady"]
        for way, result in results.items():
            table.add_row(
                str(clients),
                way,
                f"{result['first']:.2f}",
                f"{result['steady']:.3f}",
                f"{clients / result['steady']:.1f}",
                f"{result['steady'] / loop:.2f}",
                f"{(result['steady'] - loop) / clients * 1000:.2f}",
                f"{result['peak']:.2f}",
            )
    Console(width=110).print(table)
    if options.thousand:
        result = in_own_process("inline", 1000, 3)
        print(f"1,000 clients, 3 rounds, inline: peak {result['peak']:.2f} GiB")


if __name__ == "__main__":
    main()
