"""Whether S_pri predicts what an attack recovers: its correlation with PSNR (ATS fig. 2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.catalogue import DATASETS
from fedpriv.data.dataset import Dataset
from fedpriv.engine.gradients import as_trained, dense
from fedpriv.errors import BadOption
from fedpriv.evidence.observation import Observation
from fedpriv.metrics.images import psnr
from fedpriv.policies import Policy, PolicySet
from fedpriv.policies.privacy_score import sample_gradients
from fedpriv.policies.search import Stage, check_going_on
from fedpriv.progress import Progress, go_on
from fedpriv.report.search_figures import draw_correlation
from fedpriv.rng import generator, seed_of
from fedpriv.simulations.search.search import Places
from fedpriv.simulations.search.subject import Subject, kept_model, untrained
from fedpriv.state import State, state_of
from fedpriv.tables import Row, write_table


@dataclass(frozen=True)
class Attacked:
    """A policy, its S_pri, and the mean PSNR of an attack's guesses."""

    policy: str
    privacy: float
    psnr_trained: float  # against the transformed image, as the paper has it
    psnr: float  # against the original


@dataclass(frozen=True)
class Correlation:
    """Pearson's r with the 95 % interval of a bootstrap over policies."""

    r: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"r = {self.r:.2f} [{self.low:.2f}, {self.high:.2f}]"


def correlation(x: Sequence[float], y: Sequence[float], seed: int = 0) -> Correlation:
    """Pearson's correlation with a bootstrap interval; nan if one of the inputs is constant."""
    pairs = np.array([x, y], dtype=float)
    if (pairs.std(1) == 0).any():
        return Correlation(*[float("nan")] * 3)
    draw = np.random.default_rng(seed_of(seed, "correlation"))
    found: list[float] = []
    while len(found) < 2000:
        picked = pairs[:, draw.integers(0, pairs.shape[1], pairs.shape[1])]
        if (picked.std(1) > 0).all():
            found.append(np.corrcoef(picked)[0, 1])
    low, high = np.quantile(found, [0.025, 0.975])
    return Correlation(float(np.corrcoef(pairs)[0, 1]), float(low), float(high))


def observed(
    model: nn.Module, data: Dataset, x: torch.Tensor, y: torch.Tensor
) -> list[Observation]:
    """One update a sample, of one plain step at learning rate 1 in eval mode."""
    sent = state_of(model)
    gradients = sample_gradients(model, data.shape)(x, y)
    facts: dict[str, Any] = {
        "classes": data.classes,
        "input_shape": data.shape,
        "lr": 1.0,
        "mode": "eval",
        "mean": tuple(data.mean),
        "std": tuple(data.std),
    }

    def received(row: int) -> State:
        step = {name: dense(values)[row] for name, values in gradients.items()}
        return {name: value - step[name] if name in step else value for name, value in sent.items()}

    bound = as_trained(model, "eval")
    return [
        Observation(sent=sent, received=received(row), node=row, **facts).on(bound)
        for row in range(len(x))
    ]


def attacked(
    scores: Mapping[str, float],
    model: nn.Module,
    data: Dataset,
    attack: str,
    options: Mapping[str, Any] | None = None,
    images: int = 8,
    seed: int = 0,
    on_done: Callable[[], None] = lambda: None,
    progress: Progress = go_on,
) -> list[Attacked]:
    """Each policy of `scores` on the same first test images, attacked one image an update.

    Interrupted when `progress` says stop.
    """
    invert: Any = ATTACKS.build(attack, options or {})
    x, y = data.x_test[:images], data.y_test[:images]
    rows = []
    for name, privacy in scores.items():
        target = Policy.parse(name)(x, generator(seed, "attacked", name))
        found = invert(observed(model, data, data.normalised(target), y), progress)
        check_going_on(progress)
        guess = found.pixels[:, 0]
        values = [psnr(guess, part.float() / 255).tolist() for part in (target, x)]
        rows.append(Attacked(name, privacy, *map(fmean, values)))
        on_done()
    return rows


def write(rows: Sequence[Attacked], attack: str, out: Path) -> Correlation:
    """`out` as CSV with a picture beside it; the correlation of S_pri with the paper's PSNR."""
    table: list[Row] = [
        {"policy": r.policy, "s-pri": r.privacy, "psnr-trained": r.psnr_trained, "psnr": r.psnr}
        for r in rows
    ]
    write_table(out, table)
    found = correlation([row.privacy for row in rows], [row.psnr_trained for row in rows])
    draw_correlation(table, f"{len(rows)} policies, {found}", attack, out.with_suffix(".png"))
    return found


def judge_of(found: PolicySet, subject: Subject, out: Path) -> tuple[Dataset, nn.Module]:
    """The data and the semi-trained model of a search."""
    data, seed = DATASETS.build(subject.data, {}, root=subject.root), found.settings["seed"]
    fresh = partial(untrained, subject, data, seed)
    return data, kept_model(Places(out).model, fresh(), fresh)


def verify(
    found: PolicySet,
    subject: Subject,
    out: Path,
    attack: str,
    policies: int = 20,
    images: int = 8,
    on_stage: Stage = lambda what, count: None,
    on_done: Callable[[], None] = lambda: None,
    progress: Progress = go_on,
) -> Correlation:
    """Attack some of the candidates with the search's own model, spread evenly over their S_pri."""
    if min(policies, len(found.candidates)) < 3 or images < 1:
        raise BadOption(
            f"A correlation needs at least 3 policies and 1 image, got {policies} of "
            f"{len(found.candidates)} and {images}."
        )
    data, model = judge_of(found, subject, out)
    ranked = sorted(found.candidates, key=lambda row: row.privacy)
    steps = torch.linspace(0, len(ranked) - 1, min(policies, len(ranked))).round().long()
    scores = {ranked[row].policy: ranked[row].privacy for row in steps.tolist()}
    on_stage(attack, len(scores))
    seed = found.settings["seed"]
    rows = attacked(
        scores, model, data, attack, images=images, seed=seed, on_done=on_done, progress=progress
    )
    return write(rows, attack, Places(out).verified)
