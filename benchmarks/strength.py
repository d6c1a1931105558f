"""How strong the attacks are, on pictures and weights that nothing was chosen on.

Six settings: DLNet and LeNet with one and four pictures a client, ResNet20 with one, and LeNet
after four local steps on four pictures. Each is attacked by the plain loop of `_plain.py` (1,000
iterations, true labels), by `adam+cosine` with the same settings and starts, by `strongest`, and by
the plain loop again with the CPU time that `strongest` took. With `--rows`, `strongest` and the
catalogue's other inversions attack so many clients of each weight seed, with all their steps.

    python benchmarks/strength.py lenet-1 lenet-4 --results strength.jsonl
    python benchmarks/strength.py lenet-1 --rows 4 --results strength.jsonl
    python benchmarks/strength.py --results strength.jsonl --write docs/measured

What the results file has is not measured again, so that a long measurement can be cut in parts.
Seed 11 meets the pictures from number 200, seed 12 those from number 216. Many rows lose by far,
and some take minutes a picture. So every row runs on planted clients of the same network first,
whose pictures are made up, with at most SCREEN_STEPS steps and one start. Those that are more than
MARGIN decibels below the best of them there are left out.
"""

import argparse
import csv
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from _plain import FIRST, REFERENCE_STEPS, SEEDS, TV, built, images, observed, reference, start
from torch import Tensor

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.attacks.inversion.attack import GradientInversion
from fedpriv.attacks.inversion.control import planted
from fedpriv.attacks.inversion.initialisers import given as from_start
from fedpriv.attacks.inversion.race import quality, shortened
from fedpriv.data.dataset import Dataset
from fedpriv.eager import skip_compiler
from fedpriv.engine.memory import keep_pages
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.metrics.images import psnr
from fedpriv.metrics.matching import assignment

# model, pictures a client, local steps, clients of each weight seed
SETTINGS = {
    "dlnet-1": ("dlnet", 1, 1, 8),
    "dlnet-4": ("dlnet", 4, 1, 4),
    "lenet-1": ("lenet", 1, 1, 8),
    "lenet-4": ("lenet", 4, 1, 4),
    "resnet20-1": ("resnet20", 1, 1, 8),
    "lenet-4x4": ("lenet", 4, 4, 4),
}
ROWS = (
    *("dlg", "idlg", "quick", "fedavg-replay", "grad-inversion", "lbfgs+l2", "lbfgs+cosine"),
    *("adam+cosine", "adam+l2", "adam+l1", "sgd+cosine"),  # 4,800 steps each
)
SCREENED, SCREEN_STEPS, MARGIN = "screened", 300, 3.0
LOOP, SAME, BEST, EQUAL = "plain loop", "same settings", "strongest", "plain loop, equal time"
BLIND = "blind guess"


@dataclass
class World:
    """The clients of one setting and weight seed."""

    setting: str
    seed: int
    data: Dataset
    seen: list[Observation]
    x: Tensor  # the truth as pixels (V, B, C, H, W)
    y: Tensor  # (V, B)

    @classmethod
    def of(cls, setting: str, seed: int, data: Dataset, first: int, count: int) -> Self:
        name, batch, steps, _ = SETTINGS[setting]
        part = slice(first, first + batch * count)
        x, y = data.x_test[part].float() / 255, data.y_test[part]
        seen = observed(built(name, data, seed), data, count, batch, steps, first)
        shape = (count, batch)
        return cls(setting, seed, data, seen, x.unflatten(0, shape), y.unflatten(0, shape))

    def starts(self) -> Tensor:
        batch = SETTINGS[self.setting][1]
        return torch.stack([start(self.data, batch, i) for i in range(len(self.seen))])

    def loop(self, steps: int) -> Tensor:
        found = [
            reference(one.model, one, label, x, steps, steps)
            for one, label, x in zip(self.seen, self.y, self.starts(), strict=True)
        ]
        return torch.stack(found)

    def blind(self) -> Tensor:
        """The mean training picture, for everybody."""
        mean = self.data.normalised(self.data.x_train).mean(0)
        return mean.expand(*self.x.shape)

    def scores(self, x: Tensor) -> list[float]:
        """The PSNR of every picture: in a batch, of the guess that is paired with it."""
        mean, std = (
            torch.tensor(values).view(-1, 1, 1) for values in (self.data.mean, self.data.std)
        )
        found = []
        for guess, own in zip((x * std + mean).clamp(0, 1), self.x, strict=False):
            of, to = assignment(guess, own)
            found += psnr(guess[of], own[to])[to.argsort()].tolist()
        return found


def measured(
    world: World, rows: int, only: list[str], done: set[tuple[str, str, int]]
) -> Iterator[dict]:
    """What is missing of one setting and weight seed, one entry for each attack."""
    victims, name = stack(world.seen), world.setting
    seconds: dict[str, float] = {}

    def entry(what: str, x: Tensor, began: float, **more: object) -> dict:
        seconds[what] = time.process_time() - began
        found = {"setting": name, "attack": what, "seed": world.seed, "clients": len(x)}
        return found | {"psnr": world.scores(x), "seconds": seconds[what]} | more

    if rows:
        for row in (BEST, *only):
            if (name, row, world.seed) not in done:
                began = time.process_time()
                claim = ATTACKS.build(row, {})(victims.rows(list(range(rows))))
                assert isinstance(claim, Reconstruction)
                won = {"won": claim.extra["won"]} if row == BEST else {}
                yield entry(row, claim.x, began, **won)
        return
    if (name, EQUAL, world.seed) in done:
        return
    began = time.process_time()
    yield entry(BLIND, world.blind(), began)
    began = time.process_time()
    yield entry(LOOP, world.loop(REFERENCE_STEPS), began)
    alike = ATTACKS.build(
        "fedavg-replay" if SETTINGS[name][2] > 1 else "adam+cosine",
        {"tv": TV, "steps": REFERENCE_STEPS, "schedule": "steps"},
    )
    assert isinstance(alike, GradientInversion)
    began = time.process_time()
    yield entry(SAME, replace(alike, init=from_start(world.starts()))(victims).x, began)
    began = time.process_time()
    claim = ATTACKS.build(BEST, {})(victims)
    assert isinstance(claim, Reconstruction)
    yield entry(BEST, claim.x, began, won=claim.extra["won"], labels=_right(world, claim))
    steps = max(8, round(REFERENCE_STEPS * seconds[BEST] / seconds[LOOP]))
    began = time.process_time()
    yield entry(EQUAL, world.loop(steps), began, iterations=steps)


def screened(world: World) -> dict[str, float]:
    """The mean PSNR of every row on four planted clients, after a few steps from one start."""
    control, truth, _ = planted(stack(world.seen[:1]), 4, seed=13)
    found = {}
    for row in ROWS:
        attack, _ = shortened(ATTACKS.build(row, {}), SCREEN_STEPS)
        found[row] = round(float(quality(attack(control), truth).mean()), 2)
    return found


def worth_it(found: dict[str, float]) -> list[str]:
    """The rows that lose to none by more than MARGIN."""
    return [row for row, value in found.items() if value >= max(found.values()) - MARGIN]


def _right(world: World, claim: Reconstruction) -> str:
    """How many labels are right, as multisets."""
    right = 0
    for truth, found in zip(world.y.tolist(), claim.labels.tolist(), strict=True):
        right += sum(min(truth.count(one), found.count(one)) for one in set(truth))
    return f"{right} of {world.y.numel()}"


def strength(kept: list[dict]) -> list[dict[str, object]]:
    """The loop, ours alike, `strongest`, and the loop with its time; over all pictures."""
    table: list[dict[str, object]] = []
    for setting in SETTINGS:
        plain = _joined(kept, setting, LOOP)
        for what in (BLIND, LOOP, SAME, BEST, EQUAL):
            values = _joined(kept, setting, what)
            if not plain or len(values) != len(plain):
                continue
            spent = sum(one["seconds"] for one in _of(kept, setting, what))
            table.append(
                {
                    "client": title(setting),
                    "attack": what,
                    "pictures": len(values),
                    "median (dB)": f"{statistics.median(values):.1f}",
                    "mean (dB)": f"{statistics.fmean(values):.1f}",
                    "than the loop (dB)": _difference(values, plain),
                    "CPU s per picture": f"{spent / len(values):.2f}",
                }
            )
    return table


def fixed(kept: list[dict]) -> list[dict[str, object]]:
    """Every row of the catalogue beside `strongest` on the same pictures."""
    table: list[dict[str, object]] = []
    for setting in SETTINGS:
        for what in ROWS:
            row: dict[str, object] = {"client": title(setting), "attack": what}
            row["on planted clients (dB)"] = _screen(kept, setting).get(what, "")
            values, best = _joined(kept, setting, what), _first(kept, setting, what)
            if values and len(values) == len(best):
                row |= {
                    "pictures": len(values),
                    "median (dB)": f"{statistics.median(values):.1f}",
                    "`strongest`, median (dB)": f"{statistics.median(best):.1f}",
                    "`strongest` is ahead by (dB)": _difference(best, values),
                }
            if len(row) > 3 or row["on planted clients (dB)"]:
                table.append(row)
    return table


def title(setting: str) -> str:
    """As a reader calls it."""
    model, batch, steps, _ = SETTINGS[setting]
    name = {"dlnet": "DLNet", "lenet": "LeNet", "resnet20": "ResNet20"}[model]
    many = "1 picture" if batch == 1 else f"{batch} pictures"
    return f"{name}, {many}" + (f", {steps} steps" if steps > 1 else "")


def _of(kept: list[dict], setting: str, what: str) -> list[dict]:
    found = {
        one["seed"]: one for one in kept if one["setting"] == setting and one["attack"] == what
    }
    return [found[seed] for seed in SEEDS if seed in found]


def _joined(kept: list[dict], setting: str, what: str) -> list[float]:
    return [value for one in _of(kept, setting, what) for value in one["psnr"]]


def _first(kept: list[dict], setting: str, what: str) -> list[float]:
    """What `strongest` has on the pictures that the row `what` attacked."""
    best = {one["seed"]: one["psnr"] for one in _of(kept, setting, BEST)}
    parts = _of(kept, setting, what)
    return [value for one in parts for value in best.get(one["seed"], [])[: len(one["psnr"])]]


def _screen(kept: list[dict], setting: str) -> dict[str, float]:
    found = (one for one in kept if (one["setting"], one["attack"]) == (setting, SCREENED))
    return next((one["planted"] for one in found), {})


def _difference(values: list[float], plain: list[float]) -> str:
    """The mean difference with its 95 % interval (normal, over pictures)."""
    more = [a - b for a, b in zip(values, plain, strict=True)]
    half = 1.96 * statistics.stdev(more) / len(more) ** 0.5
    return f"{statistics.fmean(more):+.1f} ± {half:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", default=[], choices=[*SETTINGS, []])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), choices=SEEDS)
    parser.add_argument("--rows", type=int, default=0, help="other rows, on so many clients")
    parser.add_argument("--only", nargs="+", default=[], choices=ROWS, help="of the other rows")
    parser.add_argument("--results", type=Path, help="what was measured so far")
    parser.add_argument("--write", type=Path, help="the folder that the tables are written to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    skip_compiler()
    keep_pages()
    data = images()
    kept = []
    if given.results and given.results.exists():
        kept = [json.loads(line) for line in given.results.read_text("utf-8").splitlines()]

    def keep(one: dict) -> None:
        kept.append(one)
        if given.results:
            with given.results.open("a") as file:
                file.write(json.dumps(one) + "\n")
        told = {key: value for key, value in one.items() if key != "psnr"}
        print(told, f"median {statistics.median(one.get('psnr') or [0]):.2f}", flush=True)

    for setting in given.settings:
        if given.rows and not given.only and not _screen(kept, setting):
            world = World.of(setting, SEEDS[0], data, FIRST, 1)
            keep({"setting": setting, "attack": SCREENED, "seed": 0, "planted": screened(world)})
        only = given.only or worth_it(_screen(kept, setting)) if given.rows else []
        for seed in given.seeds:
            done = {(one["setting"], one["attack"], one["seed"]) for one in kept}
            first = FIRST + 16 * SEEDS.index(seed)
            world = World.of(setting, seed, data, first, SETTINGS[setting][3])
            for one in measured(world, given.rows, only, done):
                keep(one)
    if given.write:
        for name, table in (("strength", strength(kept)), ("rows", fixed(kept))):
            if not table:
                continue
            with (given.write / f"attacks-{name}.csv").open("w", newline="") as out:
                head = list(max(table, key=len))
                writer = csv.DictWriter(out, head, restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(table)


if __name__ == "__main__":
    main()
