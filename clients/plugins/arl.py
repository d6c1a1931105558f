"""ARL: task-oriented codes that a simulated adversary cannot invert (ARL eq. 5-9)."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import mse_loss

from fedpriv.clients.job import Job
from fedpriv.clients.plugin import PrivacyPlugin
from fedpriv.clients.plugins.dnn import taught
from fedpriv.codes.coders import critic
from fedpriv.codes.decoding import Critic, Features, perceptual_loss
from fedpriv.codes.games import Loss, Players, Stage, arl_stages
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
    """

    lambda1: float = 1.0
    lambda2: float = 0.0
    mu1: float = 0.0
    mu2: float = 0.0
    decoder_steps: int = 1

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2", "mu1", "mu2"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise BadOption(f"arl: {name} must be at least 0 and finite, got {value}.")
        if self.decoder_steps < 1:
            raise BadOption(f"arl: decoder-steps must be at least 1, got {self.decoder_steps}.")

    def on_encoder(self, encoder: nn.Module, job: Job) -> nn.Module:
        sharing = job.sharing

        def game(players: Players) -> list[Stage]:
            features = self.features(job)
            return arl_stages(
                players,
                sharing.decoder().train(),
                sharing.chosen.lr,
                self.lambda1,
                self.lambda2,
                features,
                self.adversary(job, features),
                self.decoder_steps,
            )

        return taught(encoder, job, game)

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
