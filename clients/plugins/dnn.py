"""dnn: features of a network trained for the task alone, to compare RAN and ARL with (RAN 3.1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.codes.games import Players, Stage, alternate, plain_stages
from fedpriv.errors import BadOption


@dataclass(frozen=True)
class Opponent:
    """The decoder that an encoder was trained against, and whether it saw standardised codes."""

    decoder: nn.Module
    standardised: bool = True


@dataclass(frozen=True)
class OwnClassifier:
    """The classifier that an encoder was trained with."""

    network: nn.Module


def taught(
    encoder: nn.Module,
    job: Job,
    stages: Callable[[Players], Sequence[Stage]],
    rows: Tensor | None = None,
) -> nn.Module:
    """The encoder, trained in `stages` with a fresh classifier on the party's samples.

    `rows` are the samples among them that it is trained on; all without.
    """
    sharing = job.sharing
    players = Players(encoder.train(), sharing.classifier().train(), sharing.sizes)
    job.keep(OwnClassifier(players.classifier))
    x, y = job.x, sharing.labels()
    if rows is not None:
        x, y = x[rows], y[rows]
    alternate(
        stages(players),
        x,
        y,
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
