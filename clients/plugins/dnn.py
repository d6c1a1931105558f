"""dnn: features of a network trained for the task alone, to compare RAN and ARL with (RAN 3.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.codes.games import Players, Stage, alternate, plain_stages
from fedpriv.errors import BadOption


def taught(encoder: nn.Module, job: Job, stages: Callable[[Players], Sequence[Stage]]) -> nn.Module:
    """The encoder, trained in `stages` with a fresh classifier on the party's samples."""
    sharing = job.sharing
    players = Players(encoder.train(), sharing.classifier().train(), sharing.sizes)
    alternate(
        stages(players),
        job.x,
        sharing.labels(),
        epochs=sharing.chosen.encoder_epochs,
        batch=sharing.chosen.batch_size,
        draw=job.draws("encoder"),
    )
    return encoder


@dataclass(frozen=True)
class TaskEncoder(PrivacyPlugin):
    """Train for the task alone, k + 1 steps a batch: as many as RAN's encoder takes with this k.

    k = −1 takes no step. The encoder is then that of an autoencoder, as without plugins.

    Args:
        k: One less than the steps for the task in each batch; -1 takes none.
    """

    k: int = 0

    def __post_init__(self) -> None:
        if self.k < -1:
            raise BadOption(f"dnn: k must be at least -1, got {self.k}.")

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        if self.k == -1:
            return encoder
        lr = job.sharing.chosen.lr
        return taught(encoder, job, lambda players: plain_stages(players, lr, self.k))
