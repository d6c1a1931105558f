"""dnn: plain features of a network trained for the task; what RAN and ARL are compared with (RAN sect. 3.1)."""

from dataclasses import dataclass

from torch import nn

from clients.job import Job
from clients.plugin import PrivacyPlugin
from clients.sharing import sharing_in
from fedpriv.adversarial import Players, alternate, plain_stages
from fedpriv.errors import BadOption


def players_of(encoder: nn.Module, job: Job) -> Players:
    """The encoder with a fresh classifier of the tasks."""
    sharing = sharing_in(job)
    encoder.train()
    return Players(encoder, sharing.classifier().train(), sharing.sizes)


@dataclass(frozen=True)
class TaskEncoder(PrivacyPlugin):
    """Nothing but the task; k + 1 steps a batch, as many as RAN's encoder takes with the same k."""

    k: int = 0

    def __post_init__(self) -> None:
        if self.k < 0:
            raise BadOption(f"dnn: k must be at least 0, got {self.k}.")

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        sharing = sharing_in(job)
        alternate(
            plain_stages(players_of(encoder, job), sharing.chosen.lr, self.k),
            job.x,
            sharing.labels(),
            epochs=sharing.chosen.encoder_epochs,
            batch=sharing.chosen.batch_size,
            draw=job.generator("encoder"),
        )
        return encoder
