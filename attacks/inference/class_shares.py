"""Of which classes are a client's samples? Its update is a mixture of what each class would give.

The gradient of cross-entropy is a mean over samples, so that a client's mean gradient is
Σ_c s_c g_c with its class shares s. The attacker has a few samples of each class of its own and
computes g_c for the last layer (the idea of Decaf). Shares are not negative and add up to 1.

This holds for one local step. After a whole local epoch it was measured to be worse than a blind
guess, so that no verdict rests on it unless somebody sets a gate.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from fedpriv.attacks.analytic.head import linear_heads
from fedpriv.attacks.inference.series import Series
from fedpriv.engine.gradients import gradients_at, soft
from fedpriv.errors import BadInput, BadObservation
from fedpriv.evidence.claims import Public
from fedpriv.evidence.inferences import Shares
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import stack
from fedpriv.progress import Progress, go_on
from fedpriv.state import State


def mixture(observed: Tensor, classes: Tensor) -> Tensor:
    """The shares s ≥ 0, Σs = 1, for which Σ_c s_c classes_c is nearest to a multiple of `observed`.

    observed: (P,), classes: (C, P). The multiple is free: momentum and clipping change the length
    of an update, not what it is made of. Uniform where nothing fits.
    """
    found, _ = nnls(classes.double().T.numpy(), observed.double().numpy())
    total = found.sum()
    even = np.full(len(found), 1 / len(found))
    return torch.from_numpy(found / total if total > 0 else even).float()


@dataclass(frozen=True)
class ClassShares:
    """The class shares of every client, each from all its updates that were seen.

    After several local steps the model has moved: the gradients of the classes are averaged over
    `points` models on the straight line from what was sent to what came back.
    """

    own: Public
    points: int = 3

    def __call__(self, seen: Series, progress: Progress = go_on) -> list[Shares]:
        started = time.perf_counter()
        classes = seen.updates[0].classes
        present = torch.bincount(self.own.y.long(), minlength=classes)
        if (present == 0).any():
            raise BadInput(
                f"The attacker has no sample of class {int((present == 0).nonzero()[0])} of its "
                "own, so that it cannot know what that class would give."
            )
        found: dict[int | str, list[Tensor]] = {}
        for one in seen.updates:
            found.setdefault(one.node, []).append(self.shares(one, classes))
        took = (time.perf_counter() - started) / len(found)
        return [
            Shares(
                shares=torch.stack(each).mean(0)[None],
                names=(f"{last_round(seen, node)}-{node}",),
                seconds=took,
            )
            for node, each in found.items()
        ]

    def shares(self, seen: Observation, classes: int) -> Tensor:
        """(C,) from one update."""
        victims = stack([seen], fast=False)
        heads = linear_heads(victims)
        if not heads:
            raise BadObservation(f"The model has no linear layer with {classes} outputs.")
        prefix = f"{heads[-1]}." if heads[-1] else ""
        keys = [key for key in victims.weights if key.startswith(prefix)]
        delta, steps = seen.delta, self.points if seen.local_steps > 1 else 1
        total = torch.zeros(classes, sum(victims.weights[key].numel() for key in keys))
        for number in range(steps):
            part = number / max(1, steps - 1)
            weights = {key: value + part * delta[key] for key, value in victims.weights.items()}
            total += self.by_class(victims.model, weights, victims.buffers, keys, classes)
        observed = torch.cat([-delta[key].flatten() for key in keys])
        return mixture(observed, total / steps)

    def by_class(
        self, model: torch.nn.Module, weights: State, buffers: State, keys: list[str], classes: int
    ) -> Tensor:
        """(C, P) the mean gradient of the last layer over the attacker's samples of each class."""
        rows = []
        for label in range(classes):
            own = self.own.y == label
            t = soft(self.own.y[own][None], classes)
            found = gradients_at(model, weights, buffers, True, self.own.x[own][None], t)
            rows.append(torch.cat([found[key][0].flatten() for key in keys]).detach())
        return torch.stack(rows)


def last_round(seen: Series, node: int | str) -> int:
    return max(one.round for one in seen.updates if one.node == node)
