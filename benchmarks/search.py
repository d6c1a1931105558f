"""The policy search against scoring every candidate in full, one image at a time (ATS alg. 1).

CPU seconds of one thread, in one run. What the slow way would have cost is measured on a sample of
images and scaled. The candidates' full scores, by which the race's choice is judged, come from the
batched path, which a test holds equal to the slow one; at the paper's size they take most of an
hour, and `--folder` keeps them, and the model, for a run that goes on. With CIFAR-100 in
$FEDPRIV_DATA:

    --data cifar100 --candidates 200 --keep 10 --images 100 --rounds 10 --epochs 50 --folder found
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from fedpriv.catalogue import DATASETS
from fedpriv.policies.journal import Journal, Kind, Task
from fedpriv.policies.policy import Policy, random_policies
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import Finished, Found, Search, done, search
from fedpriv.rng import generator
from fedpriv.simulations.search.subject import (
    Subject,
    kept_model,
    scorer_of,
    semi_trained,
    untrained,
)


class Clock:
    """A spread that counts scores and their CPU seconds by kind."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.seconds: dict[Kind, float] = {}
        self.scores: dict[Kind, int] = {}

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Finished]:
        for task in tasks:
            began = time.process_time()
            result = done(self.scorer, task)
            spent = time.process_time() - began
            self.seconds[task.kind] = self.seconds.get(task.kind, 0.0) + spent
            self.scores[task.kind] = self.scores.get(task.kind, 0) + task.last - task.first
            yield result

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def one_at_a_time(scorer: Scorer, policy: Policy, images: int) -> list[float]:
    """S_pri's terms as written: a gradient for each image and each point (ATS eq. 7)."""
    model = scorer.semi_trained.requires_grad_(True)
    parameters = list(model.parameters())

    def gradient(x: Tensor, y: Tensor) -> Tensor:
        loss = cross_entropy(model(x[None]), y[None])
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)])

    areas = []
    target = scorer.transformed(policy, 0, images)
    shares = [j / scorer.points for j in range(scorer.points)]
    for x0, x, y in zip(scorer.starts[:images], target, scorer.y[:images], strict=True):
        wanted = gradient(x, y)
        curve = [cosine_similarity(gradient((1 - i) * x0 + i * x, y), wanted, 0) for i in shares]
        areas.append(float(torch.stack(curve).mean()))
    return areas


def mean_privacy(found: Found, full: Found) -> float:
    """The mean full S_pri of the policies that `found` keeps."""
    exact = {row.policy: row.privacy for row in full.candidates}
    return sum(exact[name] for name in found.kept) / len(found.kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="mnist-5k")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--keep", type=int, default=3)
    parser.add_argument("--images", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=12, help="images scored one at a time")
    parser.add_argument("--bred", type=int, default=1, help="seeds of a third as many bred ones")
    parser.add_argument("--folder", type=Path, help="keeps the model and the full scores")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as passing:
        compare(chosen, chosen.folder or Path(passing))


def compare(chosen: argparse.Namespace, folder: Path) -> None:
    subject = Subject(data=chosen.data, model=chosen.model, epochs=chosen.epochs)
    sizes = {name: getattr(chosen, name) for name in ("candidates", "keep", "images", "rounds")}
    data = DATASETS.build(subject.data, {}, root=None)
    full = Journal({**vars(subject), "images": chosen.images}, folder / "full.scores.jsonl")

    def judge() -> nn.Module:
        return semi_trained(subject, data, 0, lambda epoch, loss: None)

    model = kept_model(folder / "model.safetensors", untrained(subject, data, 0), judge)
    scorer = scorer_of(subject, Search(**sizes), data, lambda: model)
    done(scorer, Task("none", "privacy", 0, 2))  # neither side pays for the first call

    race = Clock(scorer)
    ours = search(Search(**sizes), race, Journal({}))
    slow, worst, images = 0.0, 0.0, min(chosen.sample, chosen.images)
    for policy in random_policies(2, generator(0, "sample")):
        began = time.process_time()
        values = one_at_a_time(scorer, policy, images)
        slow += (time.process_time() - began) / images / 2
        fast = scorer.privacy(policy, 0, images)
        worst = max(worst, *(abs(a - b) for a, b in zip(values, fast, strict=True)))

    count = chosen.candidates
    privacy = slow * count * chosen.images
    accuracy = race.seconds["accuracy"] / race.scores["accuracy"] * count * chosen.rounds
    by_one = privacy + accuracy
    print(f"{chosen.model} on {chosen.data}, {sizes}; CPU seconds of one thread")
    for what, seconds in (("one image at a time, in full", by_one), ("the race", race.total)):
        print(f"{what:30}{seconds:9.1f}{seconds / count:9.2f} a candidate")
    print(f"the race is {by_one / race.total:.1f} times cheaper")
    print(f"one image's score differs between the two ways by {worst:.1e} at most")
    costs = {"by-one": {"privacy": privacy, "accuracy": accuracy}, "race": race.seconds}
    print(json.dumps({**sizes, **costs, "scores": race.scores}), flush=True)

    for seed in range(chosen.bred):
        clock = Clock(scorer)
        third = {**sizes, "candidates": count // 3}
        bred = search(Search(**third, evolve=True, seed=seed), clock, Journal({}))
        print(
            f"{count // 3} bred, seed {seed}: mean S_pri of the kept "
            f"{mean_privacy(bred, bred):.4f}",
            end="",
        )
        print(f" in {clock.total:.1f} s; best {', '.join(bred.kept[:3])}", flush=True)

    exhaustive = search(Search(**sizes, race=False), Clock(scorer), full)
    kept, best = mean_privacy(ours, exhaustive), mean_privacy(exhaustive, exhaustive)
    print(f"mean S_pri of the kept: {kept:.4f}, in full {best:.4f} ({kept / best - 1:+.2%})")
    common = len(set(ours.kept) & set(exhaustive.kept))
    print(f"{common} of the {chosen.keep} kept are the same")


if __name__ == "__main__":
    main()
