"""A policy search by names of data and model: workers here or on Ray, and the files it writes."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedpriv.catalogue import DATASETS
from fedpriv.data.dataset import Dataset
from fedpriv.device import device_of
from fedpriv.errors import BadOption
from fedpriv.lock import alone
from fedpriv.policies.journal import Journal, Task
from fedpriv.policies.policy import Policy
from fedpriv.policies.policy_set import PolicySet
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import (
    Found,
    Search,
    Spread,
    Stage,
    check_going_on,
    done,
    in_this_process,
    search,
)
from fedpriv.progress import Progress, go_on
from fedpriv.report.search_figures import draw, draw_curves
from fedpriv.simulations.federation.cluster import cluster
from fedpriv.simulations.federation.gpus import take_given
from fedpriv.simulations.federation.ray_life import LOOK, check_alive
from fedpriv.simulations.search.subject import (
    Subject,
    kept_model,
    scorer_of,
    semi_trained,
    untrained,
)
from fedpriv.state import digest, state_of
from fedpriv.training import evaluate


@contextmanager
def on_ray(
    scorer: Scorer,
    address: str | None = None,
    workers: int | None = None,
    gpus: float = 0.0,
    insecure: bool = False,
) -> Iterator[Spread]:
    """Tasks over a cluster's actors, one per CPU or per `gpus` of a GPU. Dead ones are replaced."""

    class Worker:
        def __init__(self, scorer: Scorer) -> None:
            torch.set_num_threads(1)
            take_given()
            self.scorer = scorer.on(device_of("auto"))

        def done(self, task: Task) -> tuple[Task, list[float]]:
            return done(self.scorer, task)

    with cluster(address, workers, insecure):
        import ray
        from ray.util import ActorPool

        found = ray.cluster_resources()
        room = found.get("GPU", 0.0) / gpus if gpus else found.get("CPU", 1.0)
        count = int(room) if workers is None else min(workers, int(room))
        if count < 1:
            raise BadOption(f"The Ray cluster has no room for a worker: it has {found}.")
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=3, max_task_retries=3)(Worker)
        shared = ray.put(scorer)
        pool: Any = ActorPool([remote.remote(shared) for _ in range(count)])

        def spread(tasks: Sequence[Task]) -> Iterator[tuple[Task, list[float]]]:
            for task in tasks:
                pool.submit(lambda actor, task: actor.done.remote(task), task)
            while pool.has_next():
                try:
                    yield pool.get_next_unordered(timeout=LOOK)
                except TimeoutError:
                    check_alive()

        yield spread


@dataclass(frozen=True)
class Places:
    """The files of a search, all named after `--out`."""

    out: Path

    @property
    def scores(self) -> Path:
        return self.out.with_suffix(".scores.jsonl")

    @property
    def model(self) -> Path:
        return self.out.with_suffix(".model.safetensors")

    @property
    def figure(self) -> Path:
        return self.out.with_suffix(".png")

    @property
    def curves(self) -> Path:
        return self.out.with_suffix(".curves.png")

    @property
    def verified(self) -> Path:
        return self.out.with_suffix(".verified.csv")

    @property
    def layers(self) -> Path:
        return self.out.with_suffix(".layers.csv")


@alone()
def search_policies(
    subject: Subject,
    settings: Search,
    out: Path,
    *,
    workers: int = 1,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    gpus_per_worker: float = 0.0,
    device: str = "auto",
    policies: Sequence[Policy] = (),
    on_stage: Stage = lambda what, count: None,
    on_done: Callable[[], None] = lambda: None,
    progress: Progress = go_on,
) -> PolicySet:
    """Search, or go on with the search whose files are there; `policies.json` and its figure.

    `policies` are judged instead of random candidates. `device` is that of a search without Ray.
    Interrupted when `progress` says stop.
    """
    started, places = time.monotonic(), Places(out)
    data = DATASETS.build(subject.data, {}, root=subject.root)
    facts = {**asdict(subject), **asdict(settings), "samples": _fingerprint(data)}
    del facts["root"]
    journal = Journal({key: facts[key] for key in facts if key not in NOT_DECISIVE}, places.scores)
    known = len(journal)

    def trained() -> nn.Module:
        ended = 0

        def batch_ended(part: float, loss: float) -> bool:
            nonlocal ended
            while ended < int(part * subject.epochs):
                ended += 1
                on_done()
            return progress(part, loss)

        on_stage("semi-trained model", subject.epochs)
        made = semi_trained(subject, data, settings.seed, batch_ended)
        check_going_on(progress)
        return made

    def model() -> nn.Module:
        return kept_model(places.model, untrained(subject, data, settings.seed), trained)

    scorer = scorer_of(subject, settings, data, model)
    judge = scorer.semi_trained
    _, accuracy = evaluate(judge, data.x_test, data.y_test, data.normalised)
    ready = time.monotonic()

    def judged(spread: Spread) -> Found:
        return search(
            settings, spread, journal, on_stage, lambda task: on_done(), policies, progress
        )

    if ray_address or workers > 1 or gpus_per_worker:
        limit = None if ray_address else workers
        with on_ray(scorer, ray_address, limit, gpus_per_worker, insecure_ray) as spread:
            found = judged(spread)
    else:
        found = judged(in_this_process(scorer.on(device_of(device))))
    ended = time.monotonic()
    result = PolicySet(
        policies=found.kept,
        data=data.name,
        model=subject.model,
        threshold=found.threshold,
        candidates=found.candidates,
        settings={**facts, "model-digest": digest(state_of(judge)), "model-accuracy": accuracy},
        cost={
            "seconds-model": round(ready - started, 2),
            "seconds-search": round(ended - ready, 2),
            "seconds-per-candidate": round((ended - ready) / len(found.candidates), 3),
            "scores": len(journal) - known,  # new ones; the others were in the journal
        },
    )
    result.save(places.out)
    draw(result, places.figure)
    draw_curves(shown_curves(scorer, result), places.curves)
    return result


def shown_curves(scorer: Scorer, found: PolicySet, images: int = 16) -> dict[str, list[float]]:
    """Mean GradSim curves: no policy, the best, the hybrid and the worst candidate."""
    worst = max(found.candidates, key=lambda row: row.privacy).policy
    shown = {
        "none": Policy(),
        f"best, {found.policies[0]}": Policy.parse(found.policies[0]),
        f"hybrid, {found.hybrid()}": found.hybrid(),
        f"worst, {worst}": Policy.parse(worst),
    }
    count = min(images, len(scorer.x))
    return {
        name: scorer.curves(policy, 0, count, scorer.points).mean(0).tolist()
        for name, policy in shown.items()
    }


# Settings that change which candidates are scored or kept, but no score.
NOT_DECISIVE = ("candidates", "keep", "threshold", "quantile", "evolve", "race", "doubts")


def _fingerprint(data: Dataset) -> str:
    return hashlib.sha256(data.x_test.numpy().tobytes()).hexdigest()[:16]
