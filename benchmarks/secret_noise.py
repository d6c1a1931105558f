"""What secret noise costs: steps of `dp` with noise of the system's and with seeded noise.

    python benchmarks/secret_noise.py --steps 60

A real client draws its noise from a stream cipher, in double precision and with 16 uniform numbers
in each value; a simulated client takes torch's generator. Both train one and the same model, in
turns: two models in memory differ by up to a third in the time of a step, for reasons that have
nothing to do with noise. Each number is a median over steps. The last column is
the ratio of both with an interval: the true median ratio of a pair of steps lies within it with a
confidence of 99 %. The process runs on one core.

With --ahead there is a third way, on all cores: a second thread draws the noise of the next step
while the gradient of this one is computed. Seconds are of the wall clock then.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from flwr.app import Context, RecordDict
from scipy.stats import binom
from torch import Tensor

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import Job, make_job
from fedpriv.rng import Draws
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.built import first_state

MODELS = ({"name": "mlp"}, {"name": "lenet"}, {"name": "convnet", "batchnorm": "group"})
DATA = {"name": "synthetic", "options": {"train": 2048, "test": 8, "size": 32}}


class Ahead:
    """Draws whose noise for the next step is made in a second thread."""

    def __init__(self, draws: Draws, thread: ThreadPoolExecutor) -> None:
        self.draws, self.thread = draws, thread
        self.next: Future[Tensor] | None = None

    def add_noise(self, values: Sequence[Tensor], deviation: float) -> None:
        sizes = [value.numel() for value in values]
        drawn = self.draws.normal((sum(sizes),)) if self.next is None else self.next.result()
        self.next = self.thread.submit(self.draws.normal, (sum(sizes),))
        for value, part in zip(values, drawn.split(sizes), strict=True):
            value.copy_(part.view_as(value).mul_(deviation).add_(value))


def scenario_of(model: dict, batch: int, steps: int) -> Scenario:
    return from_tables(
        {
            "name": "noise",
            "data": DATA,
            "model": model,
            "training": {"batch-size": batch, "local-steps": steps},
            "federation": {"clients": 1},
            "plugins": [{"name": "dp", "noise-multiplier": 1.0, "samples": 2048}],
        }
    )


def job_of(scenario: Scenario, seeded: bool) -> Job:
    own = {"partition-id": 0, "num-partitions": 1} | ({"secret-seed": 1} if seeded else {})
    context = Context(run_id=1, node_id=2, node_config=own, state=RecordDict(), run_config={})
    job = make_job(scenario, first_state(scenario), 1, context)
    job = plugin_of(scenario.plugins).on_setup(job)
    job.model.train()
    return job


def steps_of(job: Job, whose: Job, clock: Callable[[], float]) -> Iterator[float]:
    """Seconds of one step of a job after another, with the draws of another job."""
    batches, draws = whose.batches(whose), whose.optimiser.draws
    while True:
        job.optimiser.draws = draws
        begun = clock()
        batch = next(batches, None)
        if batch is None:
            return
        job.optimiser.zero_grad()
        job.loss(job.model(job.x[batch]), job.y[batch]).backward()
        job.optimiser.step()
        yield clock() - begun


def interval(values: list[float], confidence: float = 0.99) -> tuple[float, float]:
    """Two order statistics that have the true median between them."""
    ordered = sorted(values)
    low = int(binom.ppf((1 - confidence) / 2, len(ordered), 0.5)) - 1
    return ordered[max(low, 0)], ordered[min(len(ordered) - 1 - low, len(ordered) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batches", type=int, nargs="*", default=[32, 256])
    parser.add_argument("--models", nargs="*", default=[model["name"] for model in MODELS])
    parser.add_argument("--ahead", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.perf_counter if asked.ahead else time.thread_time
    if not asked.ahead:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    thread = ThreadPoolExecutor(1)
    print("model    batch  parameters  seeded ms  system ms  more, with interval")
    for model in (model for model in MODELS if model["name"] in asked.models):
        for batch in asked.batches:
            scenario = scenario_of(model, batch, asked.steps + 3)
            plain, secret = job_of(scenario, True), job_of(scenario, False)
            if asked.ahead:
                plain = job_of(scenario, False)  # the same noise, in this thread
                secret.optimiser.draws = Ahead(secret.optimiser.draws, thread)
            trained = job_of(scenario, False)
            ways = (steps_of(trained, whose, clock) for whose in (plain, secret))
            pairs = list(zip(*ways, strict=True))[3:]
            ratios = [b / a - 1 for a, b in pairs]
            low, high = interval(ratios)
            seeded, system = (
                1e3 * statistics.median(column) for column in zip(*pairs, strict=True)
            )
            count = sum(value.numel() for value in first_state(scenario).values())
            print(
                f"{model['name']:8} {batch:5}  {count:10,}  {seeded:9.2f}  {system:9.2f}  "
                f"{statistics.median(ratios):+.1%} ({low:+.1%} to {high:+.1%})",
                flush=True,
            )


if __name__ == "__main__":
    main()
