"""What the model and the recorded facts say by themselves."""

from collections.abc import Iterator
from math import ceil

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from fedpriv.attacks.preflight.finding import Finding
from fedpriv.evidence.observation import Observation
from fedpriv.scenario.binding import kebab


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


ADAPTIVE = ("adam", "adamw", "adamax", "nadam", "radam", "adagrad", "adadelta", "rmsprop")
ASKED = {
    "lr": "the learning rate",
    "optimiser": "the optimiser",
    "local_steps": "the number of local steps",
    "batch_size": "the batch size",
    "mean": "the mean that inputs are normalised by",
    "std": "the deviation that inputs are normalised by",
    "num_examples": "the client's number of samples",
}


def not_told(seen: Observation) -> Iterator[Finding]:
    """What an attack has to assume because nobody said it."""
    lacking = [name for name in ASKED if name in seen.unknown]
    if lacking:
        words = "; ".join(f"{ASKED[name]} (--set {kebab(name)}=…)" for name in lacking)
        yield Finding("not-told", "warning", f"you did not tell {words}. Attacks would guess it.")


def optimiser(seen: Observation) -> Iterator[Finding]:
    """Steps that are rescaled element by element."""
    if seen.knows("optimiser") and seen.optimiser in ADAPTIVE:
        yield Finding(
            "optimiser",
            "warning",
            f"clients step by {seen.optimiser}, which divides each element by its own size: an "
            "update keeps little of the sizes in a gradient. Attacks have to replay the steps "
            "('fedavg-replay').",
        )
    elif seen.knows("optimiser", "local_steps") and seen.local_steps > 1 and seen.momentum:
        yield Finding(
            "momentum",
            "warning",
            f"momentum of {seen.momentum:g} over {seen.local_steps} steps: early batches weigh "
            "more than late ones. 'fedavg-replay' follows it if the order of samples is guessed.",
        )


def augmentation(seen: Observation) -> Iterator[Finding]:
    """Samples that were changed at random before training."""
    if seen.augmentation:
        yield Finding(
            "augmentation",
            "warning",
            f"clients change samples at random before training ({', '.join(seen.augmentation)}): "
            "what comes back is at best the changed sample.",
        )


def schedule(seen: Observation) -> Iterator[Finding]:
    """Numbers that cannot all be true."""
    if seen.knows("batch_size", "num_examples") and seen.batch_size > seen.num_examples:
        yield Finding(
            "batch-size",
            "note",
            f"batch size {seen.batch_size} is more than the {seen.num_examples} examples.",
        )
        return
    if not seen.knows("local_steps", "batch_size"):
        return
    per_pass = ceil(seen.num_examples / seen.batch_size)
    if seen.knows("num_examples") and seen.local_steps > 1 and seen.local_steps % per_pass:
        yield Finding(
            "local-steps",
            "note",
            f"{seen.local_steps} local steps are no whole number of passes over "
            f"{seen.num_examples} examples "
            f"in batches of {seen.batch_size} ({per_pass} steps a pass).",
        )
    if seen.local_steps > 1:
        passes = seen.local_steps // per_pass
        often = f", {passes} times over the same samples," if passes > 1 else ""
        yield Finding(
            "local-steps",
            "warning",
            f"{seen.local_steps} local steps{often} are behind one update: it is no gradient of "
            "one batch, and the order of samples is unknown. Use 'fedavg-replay'.",
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
