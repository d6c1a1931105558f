"""The policy search against scoring every candidate in full, one image at a time (ATS alg. 1).

CPU seconds of one thread, in one run. The candidates' full scores come from the batched path, which a
test holds equal to the slow one; what the slow one would have cost is measured on a sample of images
and scaled. At the paper's size, with CIFAR-100 in $FEDPRIV_DATA:

    --data cifar100 --candidates 200 --keep 10 --images 100 --rounds 10 --epochs 50
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from fedpriv.catalogue import DATASETS
from fedpriv.policies.journal import Journal, Kind, Task
from fedpriv.policies.policy import Policy, random_policies
from fedpriv.policies.scorer import Scorer
from fedpriv.policies.search import Finished, Found, Search, done, search
from fedpriv.rng import generator
from simulations.search_subject import Subject, scorer_of, semi_trained


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
    """S_pri's terms as they are written down: a gradient for each image and each point (ATS eq. 7)."""
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
    chosen = parser.parse_args()
    torch.set_num_threads(1)

    subject = Subject(data=chosen.data, model=chosen.model, epochs=chosen.epochs)
    sizes = {name: getattr(chosen, name) for name in ("candidates", "keep", "images", "rounds")}
    data = DATASETS.build(subject.data, {}, root=None)
    model = semi_trained(subject, data, 0, lambda epoch, loss: None)
    scorer = scorer_of(subject, Search(**sizes), data, lambda: model)
    done(scorer, Task("none", "privacy", 0, 2))  # neither side pays for the first call

    raced, full = Clock(scorer), Clock(scorer)
    ours = search(Search(**sizes), raced, Journal({}))
    exhaustive = search(Search(**sizes, race=False), full, Journal({}))

    slow, worst, images = 0.0, 0.0, min(chosen.sample, chosen.images)
    for policy in random_policies(2, generator(0, "sample")):
        began = time.process_time()
        values = one_at_a_time(scorer, policy, images)
        slow += (time.process_time() - began) / images / 2
        fast = scorer.privacy(policy, 0, images)
        worst = max(worst, *(abs(a - b) for a, b in zip(values, fast, strict=True)))

    count = chosen.candidates
    by_one = slow * count * chosen.images + full.seconds["accuracy"]
    kept, best = mean_privacy(ours, exhaustive), mean_privacy(exhaustive, exhaustive)
    print(f"{chosen.model} on {chosen.data}, {sizes}; CPU seconds of one thread")
    for what, seconds in (
        ("one image at a time, in full", by_one),
        ("batched, in full", full.total),
        ("the race", raced.total),
    ):
        print(f"{what:30}{seconds:9.1f}{seconds / count:9.2f} a candidate")
    print(
        f"the race is {by_one / raced.total:.1f} times cheaper, batching {by_one / full.total:.1f}"
    )
    print(f"mean S_pri of the kept: {kept:.4f}, in full {best:.4f} ({kept / best - 1:+.2%})")
    print(f"one image's score differs between the two ways by {worst:.1e} at most")
    figures = {
        "by-one": by_one,
        "full": full.seconds,
        "race": raced.seconds,
        "scores": raced.scores,
    }
    print(json.dumps({**sizes, **figures, "s-pri-race": kept, "s-pri-full": best}))


if __name__ == "__main__":
    main()
