"""Sharing: what plugins need beside the job when codes are shared."""

from dataclasses import dataclass

from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.codes.coders import Coder, classifier
from fedpriv.errors import BadInput
from fedpriv.scenario.sections import Representation

SHARING = "sharing"


@dataclass(frozen=True)
class Sharing:
    """What plugins need besides the job: the architecture, the labels, how long to train."""

    coder: Coder
    chosen: Representation
    sizes: tuple[int, ...]  # the classes of each task
    y: Tensor | None  # (N, tasks); None for a party without labels

    @property
    def code(self) -> tuple[int, ...]:
        return self.coder.code(self.chosen.layer)

    def encoder(self) -> nn.Module:
        return self.coder.encoder(self.chosen.layer)

    def decoder(self, width: int = 1) -> nn.Module:
        return self.coder.decoder(self.chosen.layer, width)

    def classifier(self) -> nn.Module:
        """One perceptron for all tasks together."""
        return classifier(self.code, sum(self.sizes))

    def labels(self) -> Tensor:
        """Labels of the tasks; BadInput for a party that has none."""
        if self.y is None:
            raise BadInput(
                "This party has no labels, so that it cannot train an encoder for a task; "
                "let the autoencoder do, without the plugins dnn, ran and arl."
            )
        return self.y


def sharing_in(job: Job) -> Sharing:
    return job.kept[SHARING]
