"""RAN: an encoder trained for a classifier and against a decoder (RAN eq. 2-4, alg. 1)."""

from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch.nn.functional import mse_loss

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.dnn import Opponent, taught
from fedpriv.codes.games import Players, Rates, Stage, ran_stages, summed
from fedpriv.errors import BadOption


@dataclass(frozen=True)
class ReconstructiveAdversary(PrivacyPlugin):
    """λ weighs the task against reconstruction; λ = 1 is the plugin `dnn` with the same k.

    The algorithm as the paper prints it has `standardise = false` and the same rate for all: give
    `l2` the value of `representation.lr`.

    Args:
        lam: λ, the weight of the task against reconstruction. Smaller hides more; 1 is the task
            alone.
        k: Steps for the task, and of the decoder, before each step of the encoder against the
            decoder.
        error: The decoder's error is the sum over the pixels of a sample, as in the paper, or
            their mean. One λ of the sum is another λ of the mean.
        l1: Learning rate of the steps for the task; 0 is `representation.lr`.
        l2: Learning rate of the decoder; 0 is five times `representation.lr`.
        l3: Learning rate of the steps against the decoder; 0 is `representation.lr`.
        standardise: Whether the decoder sees standardised codes. Otherwise the encoder wins by
            making codes larger, and hides nothing.
    """

    lam: float = 0.9
    k: int = 3
    error: Literal["sum", "mean"] = "sum"
    l1: float = 0.0
    l2: float = 0.0
    l3: float = 0.0
    standardise: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= 1:
            raise BadOption(f"ran: lam must be in [0, 1], got {self.lam}; 1 is the task alone.")
        if self.k < 1:
            raise BadOption(f"ran: k must be at least 1, got {self.k}.")
        for name in ("l1", "l2", "l3"):
            if not 0 <= getattr(self, name) < 1e3:
                raise BadOption(f"ran: {name} must be in [0, 1000), got {getattr(self, name)}.")

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        sharing = job.sharing

        def game(players: Players) -> list[Stage]:
            decoder = sharing.decoder().train()
            rates = Rates.of(sharing.chosen.lr, self.l1, self.l2, self.l3)
            error = summed if self.error == "sum" else mse_loss
            job.keep(Opponent(decoder, self.standardise))
            return ran_stages(players, decoder, rates, self.lam, self.k, error, self.standardise)

        return taught(encoder, job, game)
