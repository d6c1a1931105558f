"""breaching's own attacker, driven from outside, if the package is there.

It is no dependency: install it by hand, without its own dependencies, beside fedpriv.
"""

import importlib
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fedpriv.evidence.observation import Observation


def breaching_attack(
    model: nn.Module, seen: Observation, label: Tensor, steps: int
) -> Callable[[Tensor], Tensor]:
    """Its attack "invertinggradients" with so many iterations, on a start image."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library: Any = importlib.import_module("breaching")
        options = library.get_config(overrides=["attack=invertinggradients"]).attack
    options.optim.max_iterations = steps
    setup = {"device": torch.device("cpu"), "dtype": torch.float}
    attacker = library.attacks.prepare_attack(model, nn.CrossEntropyLoss(), options, setup)
    facts = SimpleNamespace(
        shape=seen.input_shape,
        mean=seen.mean,
        std=seen.std,
        classes=seen.classes,
        modality="vision",
    )
    gradient = seen.gradient
    payload = {
        "parameters": [value.detach() for value in model.parameters()],
        "buffers": [value.clone() for value in model.buffers()],
        "metadata": facts,
    }
    shared = {
        "gradients": [gradient[name] for name, _ in model.named_parameters()],
        "buffers": None,
        "metadata": {"num_data_points": len(label), "labels": label, "local_hyperparams": None},
    }
    attentive = any(isinstance(part, nn.MultiheadAttention) for part in model.modules())
    # Its set-up and the score at the end are no part of an iteration.
    models, labels, notes = attacker.prepare_attack([payload], [shared])

    def run(x: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH) if attentive else nullcontext():
            found: Tensor = attacker._run_trial(models, [shared], labels, notes, 0, x)
        return found

    return run
