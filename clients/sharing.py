"""Sharing: what a party and its plugins need, beside the job, when codes are shared."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedpriv.codes.coders import Coder, classifier
from fedpriv.codes.parties import Holding, coder_of, holding_of, is_vertical, settings, task_labels
from fedpriv.device import CPU
from fedpriv.errors import BadInput
from fedpriv.scenario import Scenario
from fedpriv.scenario.sections import Representation


@dataclass(frozen=True)
class Sharing:
    """The architecture, the samples and labels of the party, and how long to train."""

    coder: Coder
    chosen: Representation
    held: Holding
    sizes: tuple[int, ...]  # the classes of each task
    y: Tensor | None  # (N, tasks); None for a party without labels
    device: torch.device = CPU  # of samples and networks; ids and labels are on the CPU

    @property
    def code(self) -> tuple[int, ...]:
        return self.coder.code(self.chosen.layer)

    def encoder(self) -> nn.Module:
        return self.coder.encoder(self.chosen.layer).to(self.device)

    def decoder(self, width: int = 1) -> nn.Module:
        return self.coder.decoder(self.chosen.layer, width).to(self.device)

    def classifier(self) -> nn.Module:
        """One perceptron for all tasks together."""
        return classifier(self.code, sum(self.sizes)).to(self.device)

    def labels(self) -> Tensor:
        """Labels of the tasks; BadInput for a party that has none."""
        if self.y is None:
            raise BadInput(
                "This party has no labels, so that it cannot train an encoder for a task; "
                "let the autoencoder do, without the plugins dnn, ran and arl."
            )
        return self.y.to(self.device)


def sharing_of(scenario: Scenario, party: int, device: torch.device = CPU) -> Sharing:
    """What a party of the scenario holds; in a vertical federation only one of them has labels."""
    chosen, held = settings(scenario), holding_of(scenario, party)
    y, sizes = task_labels(scenario)
    labelled = not is_vertical(scenario) or party == chosen.label_party
    there = replace(held, x=held.x.to(device), x_test=held.x_test.to(device))
    own = y[held.ids] if labelled else None
    return Sharing(coder_of(scenario, party), chosen, there, sizes, own, device)
