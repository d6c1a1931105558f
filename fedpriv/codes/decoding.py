"""Fit a decoder z -> x, which defences and attacks both need.

ARS eq. 8 and 11, ARL eq. 1-5 and 7-8, RAN eq. 3.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from fedpriv.eager import skip_compiler
from fedpriv.progress import Progress, go_on, still_wanted
from fedpriv.rng import Source
from fedpriv.training import batches, fit, outputs

Features = Callable[[Tensor], list[Tensor]]


def fit_decoder(
    decoder: nn.Module,
    z: Tensor,
    x: Tensor,
    *,
    draw: Source,
    epochs: int = 20,
    batch: int = 64,
    lr: float = 1e-3,
    progress: Progress = still_wanted,
) -> nn.Module:
    """The decoder that minimises ‖x − Dec(z)‖² (ARS eq. 8, ARL eq. 1, RAN eq. 3), frozen."""
    fit(
        decoder,
        z,
        x,
        draw=draw,
        epochs=epochs,
        batch=batch,
        lr=lr,
        loss=mse_loss,
        progress=progress,
    )
    return frozen(decoder)


def together(z: Tensor) -> tuple[int, ...]:
    """The axes of codes over which one mean is taken: samples, and the positions of maps."""
    return (0, *range(2, z.dim()))


class Standardised(nn.Module):
    """Codes less the mean of given ones, divided by their deviation.

    In front of a decoder or classifier of codes: how large an encoder makes them hides nothing.
    Vectors are standardised coordinate by coordinate, maps channel by channel: the positions of a
    map are alike, and a position that hardly moves would be blown up otherwise. What hardly
    moves counts as moving a twentieth of the others' mean.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        axes = together(z)
        spread = z.std(dim=axes, correction=0, keepdim=True)[0]
        least = max(0.05 * float(spread.mean()), 1e-6)
        self.register_buffer("mean", z.mean(dim=axes, keepdim=True)[0])
        self.register_buffer("deviation", spread.clamp_min(least))

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.mean) / self.deviation


def frozen(network: nn.Module) -> nn.Module:
    """In eval mode and without gradients of its own; inputs may still have theirs."""
    return network.eval().requires_grad_(False)


def perceptual_loss(guess: Tensor, x: Tensor, features: Features) -> Tensor:
    """‖g(x̂) − g(x)‖² over the feature maps of g, the mean of each (ARL eq. 4, 8)."""
    pairs = zip(features(guess), features(x), strict=True)
    return torch.stack([mse_loss(a, b) for a, b in pairs]).sum()


def critic_loss(critic: nn.Module, guess: Tensor, x: Tensor) -> Tensor:
    """Real pictures are ones, decoded ones zeros (ARL eq. 3)."""
    real, false = critic(x), critic(guess.detach())
    return binary_cross_entropy_with_logits(
        real, torch.ones_like(real)
    ) + binary_cross_entropy_with_logits(false, torch.zeros_like(false))


class Critic:
    """The discriminator of a decoder, trained along with it (ARL eq. 2-3)."""

    def __init__(self, network: nn.Module, lr: float) -> None:
        skip_compiler()
        self.network = network
        self.stepper = torch.optim.Adam(network.parameters(), lr=lr)

    def learn(self, guess: Tensor, x: Tensor) -> None:
        """One step towards telling decoded pictures from real ones."""
        self.stepper.zero_grad()
        critic_loss(self.network, guess, x).backward()
        self.stepper.step()

    def fooled(self, guess: Tensor) -> Tensor:
        """The decoder's GAN loss (ARL eq. 2).

        log(1 − D(x̂)) has no slope where D is sure; −log D(x̂) has the same fixed points.
        """
        said = self.network(guess)
        return binary_cross_entropy_with_logits(said, torch.ones_like(said))


def fit_strong_decoder(
    decoder: nn.Module,
    z: Tensor,
    x: Tensor,
    *,
    draw: Source,
    critic: Critic | None = None,
    features: Features | None = None,
    mu1: float = 0.0,
    mu2: float = 0.0,
    epochs: int = 20,
    batch: int = 64,
    lr: float = 1e-3,
    progress: Progress = go_on,
) -> nn.Module:
    """min over Dec of L_p + μ1·L_adv + μ2·L_perc, max over D of L_D (ARL eq. 5), frozen."""
    skip_compiler()
    stepper = torch.optim.Adam(decoder.parameters(), lr=lr)
    decoder.train()
    for epoch in range(epochs):
        for chosen in batches(len(x), batch, draw):
            guess = decoder(z[chosen])
            loss = mse_loss(guess, x[chosen])
            if critic is not None:
                critic.learn(guess, x[chosen])
                loss = loss + mu1 * critic.fooled(guess)
            if features is not None:
                loss = loss + mu2 * perceptual_loss(guess, x[chosen], features)
            stepper.zero_grad()
            loss.backward()
            stepper.step()
        if not progress((epoch + 1) / epochs, float(loss.detach())):
            break
    return frozen(decoder)


def decoded(decoder: nn.Module, z: Tensor) -> Tensor:
    """Dec(z), batch by batch."""
    return outputs(decoder, z)
