"""What the model and the recorded facts say by themselves."""

from collections.abc import Iterator
from math import ceil

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fedpriv.attacks.preflight.finding import Finding
from fedpriv.evidence.observation import Observation


def dropout(seen: Observation, model: nn.Module) -> Iterator[Finding]:
    """Masks that a server cannot know."""
    rates = [module.p for module in model.modules() if isinstance(module, _DropoutNd) and module.p]
    rate = max([seen.dropout, *rates])
    if rate and (seen.mode == "train" or seen.dropout):
        yield Finding(
            "dropout",
            "fatal",
            f"dropout of {rate:g} is active while clients train: the gradient is that of a random "
            "part of the network. Evaluate with dropout off, or treat failure as no evidence of "
            "privacy.",
        )


def batch_norm(seen: Observation, model: nn.Module) -> Iterator[Finding]:
    """Statistics of the batch, and statistics that moved although the facts say eval mode."""
    layers = [path for path, m in model.named_modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    moved = [
        path
        for path in layers
        if f"{path}.running_mean" in seen.sent
        and not torch.equal(
            seen.sent[f"{path}.running_mean"].double(),
            seen.received[f"{path}.running_mean"].double(),
        )
    ]
    if seen.mode == "eval" and moved:
        yield Finding(
            "batch-norm",
            "mismatch",
            f"the facts say eval mode, but the running statistics of {len(moved)} BatchNorm "
            f"layers moved (first: '{moved[0]}'): the client trained in train mode. Record mode = "
            "'train'.",
        )
    elif seen.mode == "train":
        yield Finding(
            "batch-norm",
            "warning",
            f"{len(layers)} BatchNorm layers use the statistics of the batch (train mode): "
            "inversion is much harder than in eval mode; the statistics that come back help "
            "'grad-inversion'.",
        )


def schedule(seen: Observation) -> Iterator[Finding]:
    """Numbers that cannot all be true."""
    if seen.batch_size > seen.num_examples:
        yield Finding(
            "batch-size",
            "note",
            f"batch size {seen.batch_size} is more than the {seen.num_examples} examples.",
        )
        return
    per_pass = ceil(seen.num_examples / seen.batch_size)
    if seen.local_steps > 1 and seen.local_steps % per_pass:
        yield Finding(
            "local-steps",
            "note",
            f"{seen.local_steps} local steps are no whole number of passes over "
            f"{seen.num_examples} examples "
            f"in batches of {seen.batch_size} ({per_pass} steps a pass).",
        )
    if seen.batch_size > 8:
        yield Finding(
            "batch-size",
            "warning",
            f"the gradient is the mean over {seen.batch_size} samples: single images are hard to "
            "tell apart.",
        )


def smoothness(model: nn.Module) -> Iterator[Finding]:
    """Kinks, on which L-BFGS stops."""
    kinks = sorted(
        {
            type(m).__name__
            for m in model.modules()
            if isinstance(m, nn.ReLU | nn.LeakyReLU | nn.MaxPool2d | nn.ReLU6)
        }
    )
    if kinks:
        yield Finding(
            "non-smooth",
            "note",
            f"the model has {', '.join(kinks)}: L-BFGS attacks (dlg, idlg) often stall, take "
            "adam+cosine.",
        )
