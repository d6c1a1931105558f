"""What dp costs: images a second of plain training and of every way to find samples' gradients.

    python benchmarks/dp_training.py --steps 20

The ways take turns, step by step, in one process on one core. Each is a client's own job: Poisson
batches, clipping, noise. `seeded` is the simulation's noise and `secret` that of a real client. A
ratio is the median over rounds of plain's seconds for an image divided by the way's, with the
quartiles behind it. Seconds are CPU time of the process.
"""

import argparse
import csv
import os
import statistics
import sys
import time
from collections.abc import Iterator

import torch
from flwr.app import Context, RecordDict

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import Job, make_job
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.built import first_state

MODELS = {
    "lenet": {"name": "lenet"},
    "resnet20": {"name": "resnet20", "batchnorm": "group"},
    "mlp": {"name": "mlp"},
}
DATA = {"name": "synthetic", "options": {"train": 2048, "test": 8, "size": 32, "channels": 3}}
WAYS = ("plain", "explicit", "explicit secret", "hooks", "ghost", "functorch")


def scenario_of(model: dict, batch: int, steps: int, way: str) -> Scenario:
    own = {"name": "dp", "noise-multiplier": 1.0, "samples": 2048, "grad-sample": way}
    return from_tables(
        {
            "name": "speed",
            "data": DATA,
            "model": model,
            "training": {"batch-size": batch, "local-steps": steps},
            "federation": {"clients": 1},
            "plugins": [] if way == "plain" else [own],
        }
    )


def job_of(scenario: Scenario, seeded: bool) -> Job:
    own = {"partition-id": 0, "num-partitions": 1} | ({"secret-seed": 1} if seeded else {})
    context = Context(run_id=1, node_id=2, node_config=own, state=RecordDict(), run_config={})
    job = make_job(scenario, first_state(scenario), 1, context)
    job = plugin_of(scenario.plugins).on_setup(job)
    job.model.train()
    return job


def steps_of(job: Job) -> Iterator[float]:
    """CPU seconds for an image, one step after another."""
    for batch in job.batches(job):
        if not len(batch):
            continue
        begun = time.process_time()
        job.optimiser.zero_grad()
        job.loss(job.model(job.x[batch]), job.y[batch]).backward()
        job.optimiser.step()
        yield (time.process_time() - begun) / len(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batches", type=int, nargs="*", default=[32, 256])
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    out = csv.writer(sys.stdout)
    out.writerow(["model", "batch", "way", "images/s", "of plain", "low", "high", "steps"])
    for name in asked.models:
        for batch in asked.batches:
            jobs = {
                way: job_of(
                    scenario_of(MODELS[name], batch, asked.steps + 3, way.partition(" ")[0]),
                    seeded="secret" not in way,
                )
                for way in asked.ways
            }
            rounds = list(zip(*map(steps_of, jobs.values()), strict=False))[3:]
            for place, way in enumerate(jobs):
                ratios = [took[0] / took[place] for took in rounds]
                low, middle, high = statistics.quantiles(ratios, n=4)
                speed = 1 / statistics.median(took[place] for took in rounds)
                out.writerow(
                    [name, batch, way, f"{speed:.0f}", *(f"{v:.2f}" for v in (middle, low, high)),
                     len(rounds)]
                )  # fmt: skip
                sys.stdout.flush()


if __name__ == "__main__":
    main()
