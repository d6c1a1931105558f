"""Gradient inversion side by side: CPU time per image and iteration, and until a reference's PSNR.

The reference is the plain loop of the literature, written out below: one victim at a time, autograd
through the gradient, cosine distance, signed Adam, total variation, box, the best point kept. Both
sides run on one thread, alternating in one process, and the ratio is the median of per-round
ratios.

    python -P benchmarks/attacks.py [--models dlnet resnet20] [--victims 1 8 32] [--quality]
    [--strength 8] [--write docs/measured]

Images and weights are those that no setting was chosen on: test images from number 200, weight
seeds 11 and 12. With --strength so many images of each weight seed are attacked by the plain loop,
by `adam+cosine` with the loop's settings, and by `strongest`. --write puts both tables, as far as
they were asked for, into a folder.
"""

import argparse
import csv
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, interpolate
from torchvision.models import VisionTransformer, resnet18

from fedpriv.attacks.catalogue import ATTACKS, Attack
from fedpriv.attacks.inversion.attack import GradientInversion
from fedpriv.attacks.inversion.initialisers import box, given
from fedpriv.catalogue import DATASETS, MODELS
from fedpriv.data.dataset import Dataset
from fedpriv.eager import skip_compiler
from fedpriv.engine.gradients import gradient_of
from fedpriv.engine.memory import keep_pages
from fedpriv.errors import BadData
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.metrics.images import psnr
from fedpriv.models.group_norm import group_normalised
from fedpriv.state import state_of

TV, REFERENCE_STEPS = 0.1, 1000
FIRST, SEEDS = 200, (11, 12)  # images and weights that nothing was tuned on
Build = Callable[[Dataset], nn.Module]


def of_registry(name: str, **options: object) -> Build:
    return lambda data: MODELS.build(
        name, options, channels=data.shape[0], size=data.shape[1], classes=data.classes
    )


def small_vit(data: Dataset) -> nn.Module:
    """Four blocks of four heads on patches of 4 × 4."""
    return VisionTransformer(data.shape[1], 4, 4, 4, 64, 128, num_classes=data.classes)


# name -> network, iterations of the reference per round, images of the quality part
NETS: dict[str, tuple[Build, int, int]] = {
    "dlnet": (of_registry("dlnet"), 40, 8),
    "lenet": (of_registry("lenet"), 40, 8),
    "resnet20": (of_registry("resnet20", init="fan-out"), 8, 8),
    "resnet20-gn": (
        lambda data: group_normalised(of_registry("resnet20", init="fan-out")(data))[0],
        8,
        8,
    ),
    "vit": (small_vit, 16, 8),
    "convnet16": (of_registry("convnet", width=16), 6, 2),
    "convnet64": (of_registry("convnet", width=64), 2, 1),
    "resnet18-64px": (lambda data: resnet18(num_classes=data.classes), 2, 1),
}
WIDE = ("convnet64", "resnet18-64px")  # at most 8 victims at once
# How `quick` gets to the reference's PSNR. Residual blocks gain from the mean of four short
# searches, whose
# steps the budgets count together.
QUICK: dict[str, object] = {"lr": 0.2, "schedule": "cosine"}
CHOSEN = {"resnet20": QUICK | {"restarts": 4, "consensus": True}}
BUDGETS = (50, 75, 100, 150, 200, 300, 400, 500, 700, 1000)


def images() -> Dataset:
    """CIFAR-100 if it is on this machine, else made-up images."""
    try:
        return DATASETS.build("cifar100", {}, root=None)
    except BadData:
        return DATASETS.build("synthetic", {"channels": 3, "size": 32, "classes": 100}, root=None)


def enlarged(data: Dataset) -> Dataset:
    """The test images that are used here, twice as large in each direction."""
    x = interpolate(data.x_test[: FIRST + 40].float(), scale_factor=2, mode="bilinear")
    test = x.round().to(torch.uint8)
    return replace(
        data, x_train=test, y_train=data.y_test[: len(x)], x_test=test, y_test=data.y_test[: len(x)]
    )


def observed(model: nn.Module, data: Dataset, count: int) -> list[Observation]:
    """Exact gradients of test images, one each."""
    x, y = data.normalised(data.x_test[FIRST:][:count]), data.y_test[FIRST:][:count]
    return [
        Observation.of_gradient(
            state_of(model),
            gradient_of(model, x[i : i + 1], y[i : i + 1]),
            classes=data.classes,
            input_shape=data.shape,
            mode="eval",
            mean=data.mean,
            std=data.std,
            node=i,
            model=model,
        )
        for i in range(count)
    ]


def reference(
    model: nn.Module, seen: Observation, label: Tensor, x: Tensor, steps: int, total: int
) -> Tensor:
    """`steps` of the plain loop's `total` iterations from the start image x (1, C, H, W)."""
    parameters = list(model.parameters())
    attentive = any(isinstance(part, nn.MultiheadAttention) for part in model.modules())
    gradient = seen.gradient  # worked out anew at each look
    target = [gradient[name] for name, _ in model.named_parameters()]
    size = torch.stack([value.square().sum() for value in target]).sum().sqrt()
    low, high = box(seen)
    x = x.clone().requires_grad_()
    adam = torch.optim.Adam([x], lr=0.1)
    schedule = torch.optim.lr_scheduler.MultiStepLR(
        adam, [total * 3 // 8, total * 5 // 8, total * 7 // 8], 0.1
    )
    best, least = x.detach().clone(), torch.inf
    for _ in range(steps):
        adam.zero_grad()
        with sdpa_kernel(SDPBackend.MATH) if attentive else nullcontext():
            loss = cross_entropy(model(x), label)
        found = torch.autograd.grad(loss, parameters, create_graph=True)
        dot = torch.stack([(a * b).sum() for a, b in zip(found, target, strict=True)]).sum()
        own = torch.stack([value.square().sum() for value in found]).sum().sqrt()
        rough = x.diff(dim=-1).abs().mean() + x.diff(dim=-2).abs().mean()
        value = 1 - dot / (own * size) + TV * rough
        value.backward(inputs=[x])
        if value.item() < least:
            best, least = x.detach().clone(), value.item()
        assert x.grad is not None
        x.grad.sign_()
        adam.step()
        schedule.step()
        with torch.no_grad():
            x.clamp_(low, high)
    return best


def attack(steps: int, options: dict[str, object]) -> Attack:
    return ATTACKS.build("quick", {"tv": TV, "steps": steps, **options})


def cpu_ms(work: Callable[[], object], share: int) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000 / share


def per_iteration(name: str, data: Dataset, sizes: list[int], rounds: int) -> dict[str, object]:
    """Milliseconds per image and iteration of both, and the ratio of each round."""
    model, iterations, _ = built(name, data)
    seen = observed(model, data, max(sizes))
    label, start = data.y_test[FIRST:][:1], torch.randn(1, *data.shape)
    stacked: dict[int, Victims] = {size: stack(seen[:size]) for size in sizes}
    plain: list[float] = []
    ours: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(rounds + 1):
        plain.append(
            cpu_ms(
                lambda: reference(model, seen[0], label, start, iterations, REFERENCE_STEPS),
                iterations,
            )
        )
        for size, victims in stacked.items():
            steps = max(4, 2 * iterations // size)
            run = attack(steps, {"lr": 0.1, "schedule": "steps"})
            # One evaluation more than steps: the last point is looked at as well.
            ours[size].append(cpu_ms(partial(run, victims), (steps + 1) * size))
    plain = plain[1:]  # the first round warms up
    found: dict[str, object] = {"reference_ms": round(statistics.median(plain), 2)}
    for size, times in ours.items():
        ratios = sorted(a / b for a, b in zip(plain, times[1:], strict=True))
        found[f"V={size}"] = {
            "ms": round(statistics.median(times[1:]), 2),
            "ratio": round(statistics.median(ratios), 2),
            "from": round(ratios[0], 2),
            "to": round(ratios[-1], 2),
        }
    return found


def to_quality(name: str, data: Dataset) -> dict[str, object]:
    """CPU seconds per image until the reference's median PSNR after 1000 iterations is reached.

    Ours is run with growing budgets of annealed steps until one reaches it; the time is that run's.
    Beside it, the means of the reference and of ours with its settings, from the same starts.
    """
    model, _, count = built(name, data)
    seen = observed(model, data, count)
    truth = data.x_test[FIRST:][:count].float() / 255
    starts = [
        torch.randn(1, *data.shape, generator=torch.Generator().manual_seed(1000 + i))
        for i in range(count)
    ]
    guesses, spent = [], 0.0
    for i, start in enumerate(starts):
        label = data.y_test[FIRST + i : FIRST + i + 1]
        started = time.process_time()
        guesses.append(reference(model, seen[i], label, start, REFERENCE_STEPS, REFERENCE_STEPS))
        spent += time.process_time() - started
    plain = scores(torch.cat(guesses), truth, data)
    goal = plain.median()
    victims, chosen = stack(seen), CHOSEN.get(name, QUICK)
    alike = ATTACKS.build("adam+cosine", {"tv": TV, "steps": REFERENCE_STEPS})
    assert isinstance(alike, GradientInversion)
    found = replace(alike, init=given(torch.stack(starts)))(victims)
    result: dict[str, object] = {
        "images": count,
        "reference_mean_db": round(float(plain.mean()), 2),
        "alike_mean_db": round(float(scores(found.x[:, 0], truth, data).mean()), 2),
        "reference_s": round(spent / count, 2),
        "reference_db": round(float(goal), 2),
    }
    for steps in BUDGETS:
        started = time.process_time()
        found = attack(steps // int(str(chosen.get("restarts", 1))), chosen)(victims)
        seconds = (time.process_time() - started) / count
        reached = scores(found.x[:, 0], truth, data).median()
        if reached >= goal:
            result |= {
                "steps": steps,
                "ours_s": round(seconds, 2),
                "ours_db": round(float(reached), 2),
                "ratio": round(spent / count / seconds, 1),
            }
            break
    return result


def scores(x: Tensor, truth: Tensor, data: Dataset) -> Tensor:
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (data.mean, data.std))
    return torch.as_tensor(psnr((x * std + mean).clamp(0, 1), truth))


def strength(name: str, data: Dataset, count: int) -> list[dict[str, object]]:
    """PSNR and CPU seconds an image over both weight seeds: the loop, ours alike, ours at its best.

    `than the loop` is the mean difference with its 95 % interval (normal, over images). The loop
    runs once more with as many iterations as the strongest attack's time allows.
    """
    found: dict[str, list[Tensor]] = {}
    spent: dict[str, float] = {}

    def add(what: str, values: Tensor, seconds: float) -> None:
        found.setdefault(what, []).append(values)
        spent[what] = spent.get(what, 0.0) + seconds

    for seed in SEEDS:
        model, _, _ = built(name, data, seed)
        seen = observed(model, data, count)
        victims, truth = stack(seen), data.x_test[FIRST:][:count].float() / 255
        starts = [
            torch.randn(1, *data.shape, generator=torch.Generator().manual_seed(1000 + i))
            for i in range(count)
        ]

        def loop(
            steps: int,
            model: nn.Module = model,
            seen: list[Observation] = seen,
            starts: list[Tensor] = starts,
        ) -> tuple[Tensor, float]:
            began = time.process_time()
            labels = data.y_test[FIRST:][:count]
            x = [
                reference(model, seen[i], labels[i : i + 1], starts[i], steps, steps)
                for i in range(count)
            ]
            return torch.cat(x), time.process_time() - began

        x, seconds = loop(REFERENCE_STEPS)
        add("plain loop", scores(x, truth, data), seconds)
        began = time.process_time()
        alike = ATTACKS.build("adam+cosine", {"tv": TV, "steps": REFERENCE_STEPS})
        assert isinstance(alike, GradientInversion)
        claim = replace(alike, init=given(torch.stack(starts)))(victims)
        add("same settings", scores(claim.x[:, 0], truth, data), time.process_time() - began)
        began = time.process_time()
        claim = ATTACKS.build("strongest", {})(victims)
        taken = time.process_time() - began
        add("strongest", scores(claim.x[:, 0], truth, data), taken)
        equal = max(8, round(REFERENCE_STEPS * taken / seconds))
        add("plain loop, equal time", scores(loop(equal)[0], truth, data), taken)
    plain = torch.cat(found["plain loop"])
    rows: list[dict[str, object]] = []
    for what, parts in found.items():
        values = torch.cat(parts)
        more = values - plain
        half = 1.96 * float(more.std()) / len(more) ** 0.5
        rows.append(
            {
                "model": name,
                "attack": what,
                "images": len(values),
                "median (dB)": round(float(values.median()), 1),
                "mean (dB)": round(float(values.mean()), 1),
                "than the loop (dB)": f"{float(more.mean()):+.1f} ± {half:.1f}",
                "CPU s per image": round(spent[what] / len(values), 2),
            }
        )
    return rows


def built(name: str, data: Dataset, seed: int = SEEDS[0]) -> tuple[nn.Module, int, int]:
    build, iterations, count = NETS[name]
    torch.manual_seed(seed)
    return build(data).eval(), iterations, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["dlnet", "resnet20"], choices=list(NETS))
    parser.add_argument("--victims", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quality", action="store_true", help="also time to the reference's PSNR")
    parser.add_argument("--strength", type=int, default=0, help="images per weight seed")
    parser.add_argument("--no-speed", action="store_true", help="leave out time per iteration")
    parser.add_argument("--write", type=Path, help="the folder that the tables are written to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    skip_compiler()
    keep_pages()
    data = images()
    speed: list[dict[str, object]] = []
    strong: list[dict[str, object]] = []
    for name in given.models:
        subject = enlarged(data) if name.endswith("64px") else data
        sizes = [size for size in given.victims if name not in WIDE or size <= 8]
        row: dict[str, object] = {"model": name, "data": data.name}
        if not given.no_speed:
            row |= per_iteration(name, subject, sizes, given.rounds)
            speed.append(told(row))
        if given.quality:
            row["quality"] = to_quality(name, subject)
        if given.strength:
            row["strength"] = found = strength(name, subject, given.strength)
            strong += found
        print(json.dumps(row, ensure_ascii=False), flush=True)
        if given.write:
            for what, table in (("speed", speed), ("strength", strong)):
                written(given.write / f"attacks-{what}.csv", table)


def told(row: dict[str, object]) -> dict[str, object]:
    """A row of the table of speeds: each ratio with the least and the largest round."""
    found = {"model": row["model"], "plain loop, ms per image and step": row["reference_ms"]}
    for size in (1, 8, 32):
        ratio = row.get(f"V={size}")
        many = "victim" if size == 1 else "victims"
        text = (
            f"{ratio['ratio']} ({ratio['from']}–{ratio['to']})" if isinstance(ratio, dict) else ""
        )
        found[f"times faster, {size} {many}"] = text
    return found


def written(file: Path, table: list[dict[str, object]]) -> None:
    if not table:
        return
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
