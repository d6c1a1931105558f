"""Attacks that read private attributes and identity features off codes (ARS eq. 13; ARL eq. 10)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from fedpriv.attacks.codes.decoder import training_codes
from fedpriv.attacks.codes.knowledge import Knowledge
from fedpriv.codes.coders import classifier
from fedpriv.codes.decoding import Standardised
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Attribute, Features
from fedpriv.progress import Progress, go_on
from fedpriv.training import fit, outputs


def trained(knows: Knowledge, z: Tensor, target: Tensor, units: int, purpose: str) -> nn.Module:
    """A perceptron from codes to `units` numbers: classes, or features when targets are floats."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(knows.draw("weights", purpose).initial_seed())
        network = nn.Sequential(Standardised(z), classifier(tuple(z.shape[1:]), units)).to(z.device)
    fit(
        network,
        z,
        target,
        draw=knows.draw("attribute", purpose),
        epochs=knows.epochs,
        batch=knows.batch,
        lr=knows.lr,
        loss=mse_loss if target.is_floating_point() else cross_entropy,
        progress=knows.told,
    )
    return network


@dataclass(frozen=True)
class AttributeAttack:
    """F_k trained on the attacker's own codes and labels of one attribute (ARS eq. 13).

    Args:
        attribute: The attribute to read, such as gender.
        codes: Train on the attacker's clean codes, or on codes with noise like the victims'.
    """

    attribute: str
    codes: Literal["clean", "noisy"] = "noisy"

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Attribute]:
        knows = knows.telling(progress)
        if self.attribute not in knows.labels:
            raise BadOption(
                f"The attacker knows no attribute '{self.attribute}' of its samples; it knows: "
                f"{', '.join(knows.labels) or 'none'}."
            )
        labels, classes = knows.labels[self.attribute]
        network = trained(
            knows, training_codes(knows, self.codes), labels, classes, f"attribute-{self.attribute}"
        )
        return [
            Attribute(
                guess=outputs(network, z).argmax(dim=1)[None],
                attribute=self.attribute,
                classes=classes,
                names=(knows.name(party),),
                partial=knows.told.stopped,
                places=torch.arange(len(z))[None],
            )
            for party, z in knows.shared.items()
        ]


@dataclass(frozen=True)
class FeatureAttack:
    """M: codes -> features of a verification network C, min ‖M(z) − C(x)‖² (ARL eq. 10).

    Args:
        network: From samples to identity features.
        codes: Train on the attacker's clean codes, or on codes with noise like the victims'.
    """

    network: Callable[[Tensor], Tensor]
    codes: Literal["clean", "noisy"] = "noisy"

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Features]:
        knows = knows.telling(progress)
        with torch.no_grad():
            wanted = self.network(knows.x)
        mapping = trained(
            knows, training_codes(knows, self.codes), wanted, wanted.shape[1], "features"
        )
        return [
            Features(
                guess=outputs(mapping, z)[None],
                names=(knows.name(party),),
                partial=knows.told.stopped,
                places=torch.arange(len(z))[None],
            )
            for party, z in knows.shared.items()
        ]
