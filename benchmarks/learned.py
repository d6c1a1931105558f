"""What the learned prior gains: the attack `learned` beside its own search, on held-out pictures.

    python benchmarks/learned.py --results learned.jsonl [--cases lenet-4] [--own cifar100]
    [--seeds 11] [--write docs/measured]

What the results file has is not measured again, so that a long measurement can be cut in parts.

Settings were chosen on CIFAR-100's test pictures 0 to 31 with weight seed 1. This measures test
pictures from number 200 with weight seeds 11 and 12. The attacker's own pictures are 2,000 training
pictures of CIFAR-100, or of CIFAR-10, which has other classes. Data come from $FEDPRIV_DATA.
"""

import argparse
import csv
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.catalogue import DATASETS, MODELS
from fedpriv.engine.gradients import gradient_of
from fedpriv.evidence.claims import Public, Reconstruction
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.images import psnr
from fedpriv.metrics.matching import assignment
from fedpriv.state import state_of

FIRST, SEEDS, OWN = 200, (11, 12), 2000
# model, pictures a victim, victims a seed, total variation, planted pictures
CASES = {
    "lenet-4": ("lenet", 4, 8, 0.1, 512),
    "lenet-1": ("lenet", 1, 32, 0.01, 256),
    "resnet20-1": ("resnet20", 1, 8, 0.01, 128),
}
OWNS = ("cifar100", "cifar10")


def observed(name: str, batch: int, count: int, seed: int) -> tuple[list[Observation], Tensor]:
    """Updates of one step on held-out pictures, and these pictures (V, B, C, H, W)."""
    data = DATASETS.build("cifar100")
    torch.manual_seed(seed)
    model = MODELS.build(name, {}, channels=3, size=32, classes=100).eval()
    part = slice(FIRST, FIRST + count * batch)
    x = data.x_test[part].float().div(255).unflatten(0, (count, batch))
    y = data.y_test[part].unflatten(0, (count, batch))
    seen = [
        Observation.of_gradient(
            state_of(model),
            gradient_of(model, x[i], y[i]),
            classes=100,
            input_shape=(3, 32, 32),
            batch_size=batch,
            num_examples=batch,
            mode="eval",
            node=i,
            model=model,
        )
        for i in range(count)
    ]
    return seen, x


def scores(claim: Reconstruction, truth: Tensor) -> Tensor:
    """The PSNR of every picture: in a batch, of the guess that is paired with it."""
    found = []
    for guess, own in zip(claim.pixels, truth, strict=True):
        of, to = assignment(guess, own)
        found.append(psnr(guess[of], own[to])[to.argsort()])
    return torch.cat(found)


def measured(case: str, own: str, seed: int) -> dict[str, Any]:
    """Both attacks on the same pictures of one weight seed: every PSNR, and CPU seconds."""
    name, batch, count, tv, planted = CASES[case]
    data = DATASETS.build(own)
    public = Public(data.x_train[:OWN].float().div(255), data.y_train[:OWN])
    seen, truth = observed(name, batch, count, seed)
    learned = ATTACKS.build("learned", {"tv": tv, "planted": planted}, own=public)
    found: dict[str, Any] = {"case": case, "own": own, "seed": seed}
    for what, attack in (("search", learned.inversion), ("learned", learned)):
        started = time.process_time()
        claim = attack(seen)
        found[f"{what} s"] = time.process_time() - started
        found[what] = scores(claim, truth).tolist()
    pictures = truth.flatten(0, 1)
    mean = public.x.mean(0).expand_as(pictures)
    return found | {"used": claim.extra["repaired"], "blind": psnr(mean, pictures).tolist()}


def table(kept: list[dict[str, Any]]) -> list[dict[str, object]]:
    """A row for each case and kind of own pictures, over the weight seeds that were measured."""
    rows: list[dict[str, object]] = []
    for case, own in [(case, own) for case in CASES for own in OWNS]:
        parts = [one for one in kept if (one["case"], one["own"]) == (case, own)]
        if not parts:
            continue
        before, after, blind = (
            [value for one in parts for value in one[what]]
            for what in ("search", "learned", "blind")
        )
        gains = [a - b for a, b in zip(after, before, strict=True)]
        half = 1.96 * statistics.stdev(gains) / len(gains) ** 0.5
        rows.append(
            {
                "client": case,
                "own pictures": own,
                "pictures": len(gains),
                "search (dB)": f"{statistics.fmean(before):.1f}",
                "gain (dB)": f"{statistics.fmean(gains):+.2f} ± {half:.2f}",
                "better": sum(gain > 0 for gain in gains),
                "blind guess (dB)": f"{statistics.fmean(blind):.1f}",
                "repaired": f"{sum(one['used'] for one in parts)} of {len(parts)}",
                "search, CPU s": round(sum(one["search s"] for one in parts)),
                "learned, CPU s": round(sum(one["learned s"] for one in parts)),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--own", nargs="+", default=list(OWNS), choices=OWNS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), choices=SEEDS)
    parser.add_argument("--results", type=Path, help="what was measured so far")
    parser.add_argument("--write", type=Path, help="the folder that the table is written to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kept = []
    if given.results and given.results.exists():
        kept = [json.loads(line) for line in given.results.read_text("utf-8").splitlines()]
    done = {(one["case"], one["own"], one["seed"]) for one in kept}
    for part in itertools.product(given.cases, given.own, given.seeds):
        if part not in done:
            kept.append(measured(*part))
            if given.results:
                with given.results.open("a") as file:
                    file.write(json.dumps(kept[-1]) + "\n")
            print(table(kept[-1:])[0], flush=True)
    rows = table(kept)
    if given.write and rows:
        with (given.write / "learned-prior.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
