"""Attacks that read private attributes and identity features off codes (ARS eq. 13; ARL eq. 10)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedpriv.attacks.codes.decoder import training_codes
from fedpriv.attacks.codes.knowledge import Knowledge
from fedpriv.evidence.claims import Attribute, Features
from fedpriv.progress import Progress, go_on
from fedpriv.training import outputs


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
        network = knows.reader(training_codes(knows, self.codes), self.attribute, "attribute")
        return [
            knows.read(party, outputs(network, z).argmax(dim=1), self.attribute)
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
        z = training_codes(knows, self.codes)
        mapping = knows.perceptron(z, wanted, wanted.shape[1], "features")
        return [
            Features(
                guess=outputs(mapping, z)[None],
                names=(knows.name(party),),
                partial=knows.told.stopped,
                places=torch.arange(len(z))[None],
            )
            for party, z in knows.shared.items()
        ]
