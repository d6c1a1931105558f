"""ARL: task-oriented codes that a simulated adversary cannot invert (ARL eq. 5-9)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import mse_loss

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.dnn import Opponent, taught
from fedpriv.codes.coders import critic
from fedpriv.codes.decoding import Critic, Features, perceptual_loss
from fedpriv.codes.games import Loss, Players, Stage, arl_stages, endless, summed
from fedpriv.errors import BadOption
from fedpriv.metrics.perceptual import RandomFeatures


@dataclass(frozen=True)
class AdversarialReconstruction(PrivacyPlugin):
    """min L_u − λ1·L_p − λ2·L_perc; both 0 is the plugin `dnn`.

    `mu1` and `mu2` give the simulated decoder a GAN and a perceptual loss (eq. 5). The perceptual
    network has fixed random filters, because the paper's pretrained one is not available offline.

    Args:
        lambda1: Weight of the pixel error that the encoder wants a decoder to make. Larger hides
            more.
        lambda2: Weight of the same error in features of a network.
        mu1: Weight of the GAN loss that makes the simulated decoder stronger.
        mu2: Weight of the perceptual loss of the simulated decoder.
        decoder_steps: Steps of the simulated decoder for each step of the encoder.
        public: Part of the party's samples that the simulated decoder is trained on, and the
            encoder is not (X2). The paper has 0.2; 0 trains both on all.
        error: The pixel error is the sum over the pixels of a sample, as in the paper, or their
            mean. One λ1 of the sum is another λ1 of the mean.
    """

    lambda1: float = 0.1
    lambda2: float = 0.0
    mu1: float = 0.0
    mu2: float = 0.0
    decoder_steps: int = 1
    public: float = 0.2
    error: Literal["sum", "mean"] = "sum"

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2", "mu1", "mu2"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise BadOption(f"arl: {name} must be at least 0 and finite, got {value}.")
        if self.decoder_steps < 1:
            raise BadOption(f"arl: decoder-steps must be at least 1, got {self.decoder_steps}.")
        if not 0 <= self.public < 1:
            raise BadOption(f"arl: public must be in [0, 1), got {self.public}; 0 is none.")

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        sharing = job.sharing
        private, public = self.divided(job)

        def game(players: Players) -> list[Stage]:
            features, decoder = self.features(job), sharing.decoder().train()
            job.keep(Opponent(decoder))
            return arl_stages(
                players,
                decoder,
                sharing.chosen.lr,
                self.lambda1,
                self.lambda2,
                features,
                self.adversary(job, features),
                self.decoder_steps,
                public,
                summed if self.error == "sum" else mse_loss,
            )

        return taught(encoder, job, game, private)

    def divided(self, job: Job) -> tuple[Tensor | None, Iterator[Tensor] | None]:
        """The rows of X1, and batches of X2 without an end; both None where all serve both."""
        count = round(self.public * len(job.x))
        if count == 0:
            return None, None
        order = job.draws("public").permutation(len(job.x))
        x2 = job.x[order[:count]]
        return order[count:], endless(x2, job.sharing.chosen.batch_size, job.draws("decoder"))

    def features(self, job: Job) -> Features | None:
        if self.lambda2 == 0 and self.mu2 == 0:
            return None
        if job.x.dim() != 4:
            raise BadOption("arl: lambda2 and mu2 need pictures; leave them at 0 for other data.")
        return RandomFeatures(job.x.shape[1]).to(job.device)

    def adversary(self, job: Job, features: Features | None) -> Loss:
        """What the simulated decoder minimises: L_p + μ1·L_adv + μ2·L_perc (eq. 5)."""
        network = critic(tuple(job.x.shape[1:])).to(job.device)
        judge = Critic(network, job.sharing.chosen.lr)

        def loss(guess: Tensor, x: Tensor) -> Tensor:
            total = mse_loss(guess, x)
            if self.mu1 > 0:
                judge.learn(guess, x)
                total = total + self.mu1 * judge.fooled(guess)
            if self.mu2 > 0 and features is not None:
                total = total + self.mu2 * perceptual_loss(guess, x, features)
            return total

        return mse_loss if self.mu1 == self.mu2 == 0 else loss
