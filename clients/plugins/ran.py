"""RAN: an encoder trained for a classifier and against a decoder (RAN eq. 2-4, alg. 1)."""

from dataclasses import dataclass

from torch import nn

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.dnn import taught
from fedpriv.codes.games import Players, Stage, ran_stages
from fedpriv.errors import BadOption


@dataclass(frozen=True)
class ReconstructiveAdversary(PrivacyPlugin):
    """λ weighs the task against reconstruction; λ = 1 is the plugin `dnn` with the same k.

    Args:
        lam: λ, the weight of the task against reconstruction. Smaller hides more; 1 is the task
            alone.
        k: Steps for the task, and of the decoder, before each step of the encoder against the
            decoder.
    """

    lam: float = 0.1
    k: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= 1:
            raise BadOption(f"ran: lam must be in [0, 1], got {self.lam}; 1 is the task alone.")
        if self.k < 1:
            raise BadOption(f"ran: k must be at least 1, got {self.k}.")

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        sharing = job.sharing

        def game(players: Players) -> list[Stage]:
            decoder = sharing.decoder().train()
            return ran_stages(players, decoder, sharing.chosen.lr, self.lam, self.k)

        return taught(encoder, job, game)
