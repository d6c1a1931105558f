"""Secret polarization: a private second head whose gradient hides that of the public one.

SPN eq. 4-6 and 18, alg. 1. The head, its optimiser's state and the class codes stay on the client.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.errors import BadOption
from fedpriv.models.heads import last_linear
from fedpriv.rng import Draws
from fedpriv.state import State

MEMORY, SLOT = "spn", "optimiser/"


def polarization_loss(v: Tensor, t: Tensor, margin: float = 1.0) -> Tensor:
    """Σ_k max(m − v_k·t_k, 0) of each sample (SPN eq. 18); v, t: (B, K) -> (B,)."""
    return torch.relu(margin - v * t).sum(-1)


def class_codes(classes: int, bits: int, draw: Draws) -> Tensor:
    """A random code of −1 and +1 for each class, (C, K) (SPN sect. 3.1)."""
    return draw.integers(2, (classes, bits)) * 2.0 - 1.0


def first_head(features: int, bits: int, width: float, draw: Draws) -> State:
    """Weights and biases of a fresh head, uniform(−width, width)."""
    return {
        "weight": (draw.uniform((bits, features)) * 2 - 1) * width,
        "bias": (draw.uniform((bits,)) * 2 - 1) * width,
    }


class TwoHeads(nn.Module):
    """Ψ(φ(x)) ⊕ Φ(φ(x)): the public logits, and a secret head on the input of the last layer."""

    def __init__(self, model: nn.Module, public: nn.Linear, secret: nn.Linear) -> None:
        super().__init__()
        self.model = model
        self.secret = secret
        self._public = (public,)  # a tuple, so that it is not registered a second time

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        caught: list[Tensor] = []

        def catch(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            caught.append(inputs[0])

        handle = self._public[0].register_forward_pre_hook(catch)
        try:
            logits = self.model(x)
        finally:
            handle.remove()
        return logits, self.secret(caught[-1])


@dataclass(frozen=True)
class SecretHead:
    """The secret head that is trained in this round, and the code of every class."""

    head: nn.Linear
    codes: Tensor  # (C, K)


@dataclass(frozen=True)
class SecretPolarization(PrivacyPlugin):
    """α1·CE + α2·polarization (SPN eq. 4); α2 = 0 is no defence.

    The default α1 = 1 is that of the paper's experiments; its text has α1 + α2 = 1. The head's
    first weights are uniform(−width, width). A larger width perturbs more: SPN table 2 has 0.3, the
    default is 1/√d as in torch's linear layers. `lr` is the head's own learning rate. With a high
    one the margins hold soon; from then on the head disturbs the public model less, and hides less.

    Args:
        alpha1: Weight of the usual cross-entropy loss.
        alpha2: Weight of the secret polarization loss. More hides more and costs more accuracy; 0
            is no defence.
        bits: Length of the secret code of each class. The secret head has as many outputs.
        margin: How far each output of the secret head must lie on its code's side before its loss
            is zero; at least 1.
        width: Half the range of the secret head's first weights. Default: one over the square root
            of the number of features.
        lr: Learning rate of the secret head. Default: that of the training.
    """

    alpha1: float = 1.0
    alpha2: float = 0.1
    bits: int = 64
    margin: float = 1.0
    width: float | None = None
    lr: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.alpha1 < math.inf and 0 <= self.alpha2 < math.inf):
            raise BadOption(
                "spn needs a finite alpha1 above 0 and alpha2 at least 0 (0 is no defence), "
                f"got alpha1={self.alpha1}, alpha2={self.alpha2}."
            )
        if self.bits < 1:
            raise BadOption(f"spn: bits must be at least 1, got {self.bits}.")
        for name, value in (("width", self.width), ("lr", self.lr)):
            if value is not None and not 0 < value < math.inf:
                raise BadOption(f"spn: {name} must be above 0 and finite, got {value}.")
        if not 1 <= self.margin < math.inf:
            raise BadOption(
                f"spn: margin must be at least 1 and finite, got {self.margin}; below 1 the "
                "polarization loss does not bound the Hamming distance (SPN lemma 5.5)."
            )

    def on_setup(self, job: Job) -> Job:
        kept = self.recalled(job)
        _, public = last_linear(job.shared)
        head = nn.Linear(public.in_features, self.bits, device="meta").to_empty(device=job.device)
        head.load_state_dict({key: kept[key] for key in ("weight", "bias")})
        rate = {} if self.lr is None else {"lr": self.lr}
        job.optimiser.add_param_group({"params": list(head.parameters()), **rate})
        for name, parameter in head.named_parameters():
            prefix = f"{SLOT}{name}/"
            slots = {k.removeprefix(prefix): v for k, v in kept.items() if k.startswith(prefix)}
            if slots:
                job.optimiser.state[parameter] = slots
        codes, inner = kept["codes"].to(job.device), job.loss

        def loss(outputs: tuple[Tensor, Tensor], y: Tensor) -> Any:
            u, v = outputs
            hidden = polarization_loss(v, codes[y], self.margin).mean()
            return self.alpha1 * inner(u, y) + self.alpha2 * hidden

        job.model, job.loss = TwoHeads(job.model, public, head), loss
        job.keep(SecretHead(head, kept["codes"]))
        return job

    def recalled(self, job: Job) -> State:
        """Head, codes and optimiser state of this run's last round, or the ones it begins with."""
        features = last_linear(job.shared)[1].in_features
        kept = job.recall(MEMORY)
        if kept is not None and kept["weight"].shape == (self.bits, features):
            return kept
        width = 1 / math.sqrt(features) if self.width is None else self.width
        fresh = first_head(features, self.bits, width, job.secret.of_run(MEMORY, "head"))
        draw = job.secret.of_run(MEMORY, "codes")
        return {**fresh, "codes": class_codes(job.dataset.classes, self.bits, draw)}

    def on_update(self, update: State, job: Job) -> State:
        secret = job.kept(SecretHead)
        if secret is None:
            return update
        state = {name: value.detach().cpu() for name, value in secret.head.named_parameters()}
        for name, parameter in secret.head.named_parameters():
            slots = job.optimiser.state.get(parameter, {})
            state |= {
                f"{SLOT}{name}/{slot}": value.detach().cpu()
                for slot, value in slots.items()
                if isinstance(value, Tensor)
            }
        job.remember(MEMORY, {**state, "codes": secret.codes})
        return update
