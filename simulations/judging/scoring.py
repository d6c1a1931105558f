"""Scoring: the one place where a reconstruction meets its original."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadInput
from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.files import write_text
from fedpriv.metrics.labels import hit
from fedpriv.metrics.matching import assignment, nearest
from fedpriv.metrics.tradeoff import ppc

Row = dict[str, Any]
PICTURE_METRICS, PLAIN_METRICS = ("psnr", "ssim", "rmse"), ("mse", "rmse")
COLUMNS = (
    "run",
    "round",
    "node",
    "attack",
    "informed",
    "plugins",
    "sample",
    "psnr",
    "ssim",
    "rmse",
    "mse",
    "psnr-trained",
    "label-hit",
    "traced-hit",
    "loss",
    "seconds",
    "clean-norm",
    "added-norm",
    "m",
    "input-error",
    "bound",
)


@dataclass(frozen=True)
class Scored:
    """One victim's guesses side by side with the samples they stand for, in pixels."""

    rows: list[Row]
    guess: Tensor
    truth: Tensor
    trained: Tensor


def pixels(x: Tensor, like: Reconstruction) -> Tensor:
    """Samples (N, …) as the reconstruction's own pixels: without normalisation, in [0, 1]."""
    return Reconstruction(
        x=x[None], labels=like.labels, loss=like.loss, mean=like.mean, std=like.std
    ).pixels[0]


def scored(found: Reconstruction, truth: Truth, about: Mapping[str, Any]) -> Scored:
    """A row for every guess of one victim, matched with the samples the client used.

    A batch comes back in any order, so guesses are assigned to samples by least squared error; `label-hit`
    compares the labels of the pairs. `input-error` is ‖x* − x‖/‖x‖ as the model sees both, neither clamped
    nor in pixels: what theorem 2.2 bounds.
    """
    guess, real = found.pixels[0], pixels(truth.x, found)
    if guess.shape[1:] != real.shape[1:]:
        raise BadInput(
            f"{truth.name}: guesses have shape {tuple(guess.shape[1:])} and the client's samples "
            f"{tuple(real.shape[1:])}; this truth is of another run."
        )
    g, t = assignment(guess, real)
    guess, real, trained = guess[g], real[t], pixels(truth.trained, found)[t]
    picture = guess.dim() == 4 and min(guess.shape[2:]) >= 3
    names = PICTURE_METRICS if picture else PLAIN_METRICS
    values = {name: METRICS.build(name)(guess, real) for name in names}
    if picture:
        values["psnr-trained"] = METRICS.build("psnr")(guess, trained)
    values["label-hit"] = hit(found.labels[0][g], truth.y[t])
    values["input-error"] = METRICS.build("rmse")(found.x[0][g], truth.x[t])
    rows = [
        {
            **about,
            "round": truth.round,
            "node": truth.node,
            "sample": int(truth.indices[t[i]]),
            **{name: round(float(value[i]), 6) for name, value in values.items()},
            "loss": float(found.loss[0]),
            "seconds": round(found.seconds, 4),
            "clean-norm": truth.clean,
            "added-norm": truth.added,
            "m": ppc(truth.clean, truth.added),
        }
        for i in range(len(guess))
    ]
    return Scored(rows, guess, real, trained)


def trace(scores: Sequence[Scored]) -> None:
    """Fill in `traced-hit`: whether the reconstruction nearest to a sample is its owner's (SPN alg. 6)."""
    if not scores:
        return
    pool = torch.cat([one.guess for one in scores])
    owner = [row["node"] for one in scores for row in one.rows]
    for one in scores:
        for row, index in zip(one.rows, nearest(one.truth, pool).tolist(), strict=True):
            row["traced-hit"] = float(owner[index] == row["node"])


def write_scores(path: Path, rows: Iterable[Row]) -> None:
    """All rows as CSV; columns that no row fills are left out."""
    rows = list(rows)
    used = [name for name in COLUMNS if any(name in row for row in rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, used, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
