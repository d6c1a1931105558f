"""A policy search from names: data, the two models of ATS alg. 1, and workers here or on Ray."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import nn

from fedpriv.catalogue import DATASETS, MODELS
from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadData, BadFolder, BadOption
from fedpriv.files import whole
from fedpriv.policies.figure import draw
from fedpriv.policies.journal import Journal, Task
from fedpriv.policies.policy import Policy
from fedpriv.policies.policy_set import PolicySet
from fedpriv.policies.privacy_score import Reduction, Rule
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import Found, Search, Spread, Stage, done, in_this_process, search
from fedpriv.rng import generator, seed_of
from fedpriv.state import digest, state_of
from fedpriv.training import evaluate, fit
from simulations.cluster import cluster

log = logging.getLogger(__name__)
ATTACKED = 100  # the first test images, which ATS attacks and therefore does not score with


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What the policies are searched for, and how the models that judge them are made."""

    data: str = "cifar100"
    model: str = "resnet20"
    root: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model
    share: float = 0.1  # of the training samples that M^s sees …
    epochs: int = 50  # … this often
    batch: int = 128  # images in a round of S_acc
    points: int = 10  # K
    reduction: Reduction = "global"
    rule: Rule = "left"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadOption(f"share must be in (0, 1], got {self.share}.")
        if self.epochs < 0 or self.points < 1 or self.batch < 2:
            raise BadOption(
                "epochs must be at least 0, points at least 1 and batch at least 2, got "
                f"{self.epochs}, {self.points} and {self.batch}."
            )


def untrained(subject: Subject, data: Dataset, seed: int) -> nn.Module:
    """M^r: random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "untrained"))
        return MODELS.build(subject.model, subject.options, **data.dimensions).eval()


def semi_trained(
    subject: Subject, data: Dataset, seed: int, on_epoch: Callable[[int, float], None]
) -> nn.Module:
    """M^s: the same after a few epochs on a share of the training samples (ATS sect. 4.4)."""
    model = untrained(subject, data, seed)
    count = max(1, round(subject.share * len(data.x_train)))
    chosen = torch.randperm(len(data.x_train), generator=generator(seed, "share"))[:count]
    fit(
        model,
        data.x_train[chosen],
        data.y_train[chosen],
        draw=generator(seed, "semi-trained"),
        normalise=data.normalised,
        epochs=subject.epochs,
        lr=0.1,
        optimizer=partial(torch.optim.SGD, momentum=0.9, weight_decay=5e-4),
        on_epoch=on_epoch,
    )
    return model.eval()


def kept_model(path: Path, model: nn.Module, make: Callable[[], nn.Module]) -> nn.Module:
    """The weights at `path` in `model`, or those of `make()`, which are then left there."""
    if path.exists():
        try:
            model.load_state_dict(safetensors.torch.load_file(path))
        except (SafetensorError, RuntimeError, OSError) as error:
            raise BadFolder(
                f"{path} does not hold this search's semi-trained model ({error}); delete it to "
                "train it again."
            ) from error
        return model.eval()
    model = make()
    with whole(path) as beside:
        safetensors.torch.save_file(state_of(model), beside)
    return model


def scorer_of(subject: Subject, settings: Search, data: Dataset, model: nn.Module) -> Scorer:
    """Validation images other than those attacked, drawn once for all candidates (ATS app. A)."""
    spare = max(0, min(ATTACKED, len(data.x_test) - max(settings.images, subject.batch)))
    x, y = data.x_test[spare:], data.y_test[spare:]
    if settings.images > len(x):
        raise BadOption(
            f"images is {settings.images} but '{data.name}' has {len(x)} test images; lower it."
        )
    batch, seed = min(subject.batch, len(x)), settings.seed
    rows = torch.randperm(len(x), generator=generator(seed, "images"))[: settings.images]
    rounds = [
        torch.randperm(len(x), generator=generator(seed, "round", turn))[:batch]
        for turn in range(settings.rounds)
    ]
    return Scorer(
        semi_trained=model,
        untrained=untrained(subject, data, seed),
        x=x[rows],
        y=y[rows],
        batches=torch.stack([x[turn] for turn in rounds]),
        mean=data.mean,
        std=data.std,
        points=subject.points,
        reduction=subject.reduction,
        rule=subject.rule,
        seed=seed,
    )


@contextmanager
def on_ray(
    scorer: Scorer, address: str | None = None, workers: int | None = None, gpus: float = 0.0
) -> Iterator[Spread]:
    """Tasks over the actors of a cluster: one per CPU, or per `gpus` of a GPU; the dead are replaced."""
    import ray
    from ray.util import ActorPool

    class Worker:
        def __init__(self, scorer: Scorer) -> None:
            torch.set_num_threads(1)
            self.scorer = scorer.on("cuda") if gpus else scorer

        def done(self, task: Task) -> tuple[Task, list[float]]:
            return done(self.scorer, task)

    with cluster(address, workers):
        found = ray.cluster_resources()
        room = found.get("GPU", 0.0) / gpus if gpus else found.get("CPU", 1.0)
        count = int(room) if workers is None else min(workers, int(room))
        if count < 1:
            raise BadOption(f"The Ray cluster has no room for a worker: it has {found}.")
        remote = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=3, max_task_retries=3)(Worker)
        shared = ray.put(scorer)
        pool: Any = ActorPool([remote.remote(shared) for _ in range(count)])

        def spread(tasks: Sequence[Task]) -> Iterator[tuple[Task, list[float]]]:
            yield from pool.map_unordered(lambda actor, task: actor.done.remote(task), list(tasks))

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


def search_policies(
    subject: Subject,
    settings: Search,
    out: Path,
    *,
    workers: int = 1,
    ray_address: str | None = None,
    gpus_per_worker: float = 0.0,
    policies: Sequence[Policy] = (),
    on_stage: Stage = lambda what, count: None,
    on_done: Callable[[], None] = lambda: None,
) -> PolicySet:
    """Search, or go on with the search whose files are there; `policies.json` and its figure.

    `policies` are judged instead of random candidates.
    """
    started, places = time.monotonic(), Places(out)
    data = DATASETS.build(subject.data, {}, root=subject.root)
    if not data.is_image:
        raise BadData(f"Policies transform images; '{data.name}' has samples of {data.shape}.")
    facts = {**asdict(subject), **asdict(settings), "samples": _fingerprint(data)}
    journal = Journal({key: facts[key] for key in facts if key not in NOT_DECISIVE}, places.scores)

    def trained() -> nn.Module:
        on_stage("semi-trained model", subject.epochs)
        return semi_trained(subject, data, settings.seed, lambda epoch, loss: on_done())

    model = kept_model(places.model, untrained(subject, data, settings.seed), trained)
    _, accuracy = evaluate(model, data.x_test, data.y_test, data.normalised)
    scorer = scorer_of(subject, settings, data, model)
    ready = time.monotonic()

    def judged(spread: Spread) -> Found:
        return search(settings, spread, journal, on_stage, lambda task: on_done(), policies)

    if ray_address or workers > 1 or gpus_per_worker:
        limit = None if ray_address else workers
        with on_ray(scorer, ray_address, limit, gpus_per_worker) as spread:
            found = judged(spread)
    else:
        found = judged(in_this_process(scorer))
    ended = time.monotonic()
    result = PolicySet(
        policies=found.kept,
        data=data.name,
        model=subject.model,
        threshold=found.threshold,
        candidates=found.candidates,
        settings={**facts, "model-digest": digest(state_of(model)), "model-accuracy": accuracy},
        cost={
            "seconds-model": round(ready - started, 2),
            "seconds-search": round(ended - ready, 2),
            "seconds-per-candidate": round((ended - ready) / len(found.candidates), 3),
        },
    )
    result.save(places.out)
    draw(result, places.figure)
    return result


# More candidates, another number to keep or another rule of the race leave the scores as they are.
NOT_DECISIVE = ("root", "candidates", "keep", "threshold", "quantile", "race", "doubts")


def _fingerprint(data: Dataset) -> str:
    return hashlib.sha256(data.x_test.numpy().tobytes()).hexdigest()[:16]
