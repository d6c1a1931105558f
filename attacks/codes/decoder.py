"""Substitute decoders: from shared codes back to samples.

ARS eq. 8 and 11, ARL eq. 1-5, RAN sect. 3.1.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fedpriv.attacks.codes.knowledge import Knowledge
from fedpriv.codes.coders import critic
from fedpriv.codes.decoding import Critic, Standardised, decoded, fit_decoder, fit_strong_decoder
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Reconstruction
from fedpriv.metrics.perceptual import RandomFeatures
from fedpriv.progress import Progress, go_on


def substitute(
    knows: Knowledge,
    z: Tensor,
    purpose: object,
    width: int = 1,
    longer: int = 1,
    even: bool = False,
) -> nn.Module:
    """A fresh decoder trained on codes `z` of the attacker's samples (ARS eq. 8)."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(knows.draw("weights", purpose).initial_seed())
        network = behind(z, knows.decoder(width), even).to(z.device)
    return fit_decoder(
        network,
        z,
        knows.x,
        draw=knows.draw("decoder", purpose),
        epochs=knows.epochs * longer,
        batch=knows.batch,
        lr=knows.lr,
        progress=knows.told,
    )


def behind(z: Tensor, decoder: nn.Module, even: bool) -> nn.Module:
    """The decoder as it is, or behind the standardisation of codes like `z`."""
    return nn.Sequential(Standardised(z), decoder) if even else decoder


def training_codes(knows: Knowledge, kind: str) -> Tensor:
    """Clean codes, or noisy ones: own releases, or an outsider's imitation (ARS eq. 11)."""
    if kind == "clean":
        return knows.clean
    if knows.own is not None:
        return knows.own
    if knows.noise is None or knows.noise.epsilon == 0:
        return knows.clean
    return knows.perturbed(substitute(knows, knows.clean, "clean"), knows.own_mask())


@dataclass(frozen=True)
class DecoderAttack:
    """A fresh decoder for all victims. `mu1` and `mu2` are those of ARL eq. 5.

    Args:
        codes: Train on the attacker's clean codes, or on codes with noise like the victims'.
        width: Times as wide as the mirror of the encoder.
        longer: Times as many epochs.
        mu1: Weight of a GAN loss.
        mu2: Weight of a perceptual loss.
        even: Standardise codes first, against encoders that hide by making codes larger.
    """

    codes: Literal["clean", "noisy"] = "noisy"
    width: int = 1
    longer: int = 1
    mu1: float = 0.0
    mu2: float = 0.0
    even: bool = False

    def __post_init__(self) -> None:
        if min(self.width, self.longer) < 1 or min(self.mu1, self.mu2) < 0:
            raise BadOption(
                "decoder attacks need width and longer of at least 1, mu1 and mu2 of at least 0; "
                f"got {self.width}, {self.longer}, {self.mu1}, {self.mu2}."
            )

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Reconstruction]:
        knows = knows.telling(progress)
        z = training_codes(knows, self.codes)
        network = self.strong(knows, z) if self.mu1 or self.mu2 else self.plain(knows, z)
        return knows.claimed({party: decoded(network, z) for party, z in knows.shared.items()})

    def plain(self, knows: Knowledge, z: Tensor) -> nn.Module:
        return substitute(knows, z, self.codes, self.width, self.longer, self.even)

    def strong(self, knows: Knowledge, z: Tensor) -> nn.Module:
        if knows.x.dim() != 4:
            raise BadOption("mu1 and mu2 judge pictures; leave them at 0 for other data.")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(knows.draw("weights", "strong").initial_seed())
            network = behind(z, knows.decoder(self.width), self.even).to(z.device)
            judge = critic(tuple(knows.x.shape[1:])).to(z.device)
        return fit_strong_decoder(
            network,
            z,
            knows.x,
            draw=knows.draw("decoder", "strong"),
            critic=Critic(judge, knows.lr) if self.mu1 else None,
            features=RandomFeatures(knows.x.shape[1]).to(z.device) if self.mu2 else None,
            mu1=self.mu1,
            mu2=self.mu2,
            epochs=knows.epochs * self.longer,
            batch=knows.batch,
            lr=knows.lr,
            progress=knows.told,
        )


@dataclass(frozen=True)
class TakeAsIs:
    """What was shared is the guess: for noisy raw data (RAN sect. 3.1's measure of `noisy`)."""

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Reconstruction]:
        if knows.clean.shape != knows.x.shape:
            raise BadOption("Codes are no samples here; take-as-is needs the layer 'input'.")
        return knows.claimed(knows.shared)
