"""What the learned prior gains: the attack `learned` beside its own search, on held-out pictures.

    python -P benchmarks/learned.py [--write docs/measured]

Settings were chosen on CIFAR-100's test pictures 0 to 31 with weight seed 1. This measures test
pictures from number 200 with weight seeds 11 and 12. The attacker's own pictures are 2,000 training
pictures of CIFAR-100, or of CIFAR-10, which has other classes. Data come from $FEDPRIV_DATA.
"""

import argparse
import csv
import time
from pathlib import Path

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
CASES = (("lenet", 4, 8, 0.1, 512), ("lenet", 1, 32, 0.01, 256), ("resnet20", 1, 8, 0.01, 128))


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


def measured(name: str, batch: int, count: int, tv: float, planted: int, own: str) -> list[object]:
    """One row: both attacks on the same pictures, over both weight seeds."""
    data = DATASETS.build(own)
    public = Public(data.x_train[:OWN].float().div(255), data.y_train[:OWN])
    gains, before, spent, used = [], [], [0.0, 0.0], 0
    for seed in SEEDS:
        seen, truth = observed(name, batch, count, seed)
        learned = ATTACKS.build("learned", {"tv": tv, "planted": planted}, own=public)
        for number, attack in enumerate((learned.inversion, learned)):
            started = time.process_time()
            claim = attack(seen)
            spent[number] += time.process_time() - started
            if number == 0:
                before.append(scores(claim, truth))
        used += claim.extra["repaired"]
        gains.append(scores(claim, truth) - before[-1])
    gain, plain = torch.cat(gains), torch.cat(before)
    mean = data.x_train[:OWN].float().div(255).mean(0)
    blind = psnr(mean.expand_as(truth.flatten(0, 1)), truth.flatten(0, 1)).mean()
    error = gain.std() / len(gain) ** 0.5
    better = int((gain > 0).sum())
    figures = (float(plain.mean()), float(gain.mean()), 1.96 * float(error), float(blind))
    row = [name, batch, own, len(gain), *(round(value, 2) for value in figures), better]
    return [*row, f"{used} of {len(SEEDS)}", *(round(value) for value in spent)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    folder = parser.parse_args().write
    torch.set_num_threads(1)
    head = ["model", "batch", "own pictures", "pictures", "search dB", "gain dB", "± (95 %)"]
    head += ["blind dB", "better", "used", "search CPU s", "learned CPU s"]
    rows = [head]
    for *case, own in [(*case, own) for case in CASES for own in ("cifar100", "cifar10")]:
        rows.append(measured(*case, own))
        print(*rows[-1], sep="\t", flush=True)
    if folder:
        with (folder / "learned-prior.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
