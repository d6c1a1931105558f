"""Analyses with the networks of the game itself: the encoder's own decoder and classifier.

RAN sect. 3.1 reports them beside fresh ones. The party that trained the encoder keeps them in its
truth; no attacker has them, so that no verdict rests on these figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedpriv.attacks.codes.knowledge import Knowledge
from fedpriv.codes.coders import classifier
from fedpriv.codes.decoding import Standardised, decoded
from fedpriv.codes.release import below
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Attribute, Reconstruction
from fedpriv.evidence.truth import CLASSIFIER, DECODER, STANDARDISED
from fedpriv.progress import Progress, go_on
from fedpriv.training import outputs


@dataclass(frozen=True)
class OwnDecoder:
    """The decoder that the encoder was trained against, on the others' codes.

    Args:
        networks: The networks of the game, by name.
    """

    networks: Mapping[str, Tensor]

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Reconstruction]:
        state = below(DECODER, self.networks)
        if not state:
            raise BadOption("No party kept the decoder of a game; use the plugins ran or arl.")
        network = knows.decoder(1)
        network.load_state_dict(state)
        if bool(self.networks[STANDARDISED]):
            network = nn.Sequential(Standardised(knows.clean), network)
        network = network.to(knows.x.device)
        return knows.claimed({party: decoded(network, z) for party, z in knows.shared.items()})


@dataclass(frozen=True)
class OwnClassifier:
    """The classifier that the encoder was trained with, on the others' codes: its first task.

    Args:
        networks: The networks of the game, by name.
        tasks: What it was trained for.
    """

    networks: Mapping[str, Tensor]
    tasks: Sequence[str]

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Attribute]:
        state = below(CLASSIFIER, self.networks)
        if not state:
            raise BadOption("No party kept the classifier of its encoder; use dnn, ran or arl.")
        sizes = [knows.labels[task][1] for task in self.tasks]
        network = classifier(tuple(knows.clean.shape[1:]), sum(sizes))
        network.load_state_dict(state)
        network = network.to(knows.x.device)
        return [
            Attribute(
                guess=outputs(network, z)[:, : sizes[0]].argmax(dim=1)[None],
                attribute=self.tasks[0],
                classes=sizes[0],
                names=(knows.name(party),),
                places=torch.arange(len(z))[None],
            )
            for party, z in knows.shared.items()
        ]
