"""What a curious party knows when codes are shared.

The attacker's samples are its own, disjoint from its victims'. It may query the published encoder,
sees the codes of the others and knows the settings of their defence, but no mask, decoder or sample
of theirs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from fedpriv.codes.perturbation import budget, misleading, random_mask
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Reconstruction
from fedpriv.progress import Progress, Told
from fedpriv.rng import generator


@dataclass(frozen=True)
class NoiseSettings:
    """The public settings of the plugin `ars`; `share` 1 is no mask."""

    epsilon: float
    relative: bool = True
    steps: int = 10
    share: float = 0.5


@dataclass(frozen=True)
class Knowledge:
    """All that a curious party knows.

    `query` is the published encoder, `own` the attacker's codes as its own plugins released
    them (None for an outsider, who has no plugins), `shared` the codes of others by party.
    """

    query: Callable[[Tensor], Tensor]
    x: Tensor
    shared: Mapping[int, Tensor]
    decoder: Callable[[int], nn.Module]  # width -> an untrained decoder
    own: Tensor | None = None
    labels: Mapping[str, tuple[Tensor, int]] = field(default_factory=dict)  # its own samples'
    noise: NoiseSettings | None = None
    epochs: int = 10
    batch: int = 64
    lr: float = 1e-3
    seed: int = 0
    round: int = 1
    told: Told = field(default_factory=Told)  # asked between epochs whether to go on

    def telling(self, progress: Progress) -> "Knowledge":
        """The same, with somebody to ask whether to go on."""
        return replace(self, told=Told(progress))

    def name(self, party: int) -> str:
        """The name of a party's release, `<round>-<node>`."""
        return f"{self.round}-{party}"

    def claimed(
        self, guesses: Mapping[int, Tensor], found: Mapping[int, Mapping[str, Tensor]] | None = None
    ) -> list[Reconstruction]:
        """Guesses of the parties' samples as claims, in the order of the codes they shared."""
        return [
            Reconstruction(
                x=guess[None],
                labels=torch.empty(1, 0, dtype=torch.long),
                loss=torch.full((1,), torch.nan),
                names=(self.name(party),),
                partial=self.told.stopped,
                places=torch.arange(len(guess))[None],
                found={key: value[None] for key, value in (found or {}).get(party, {}).items()},
            )
            for party, guess in guesses.items()
        ]

    def draw(self, *names: object) -> torch.Generator:
        return generator(self.seed, "curious", *names)

    @property
    def clean(self) -> Tensor:
        """The encoder's codes of its own samples."""
        return self.query(self.x)

    def perturbed(self, decoder: nn.Module, mask: Tensor | None) -> Tensor:
        """Its own codes with the others' kind of noise and a mask of its choice (ARS eq. 11)."""
        if self.noise is None:
            raise BadOption("The parties add no adversarial noise, so there is no mask to guess.")
        z, noise = self.clean, self.noise
        epsilon = budget(z, noise.epsilon, noise.relative)
        return misleading(z, self.x, decoder, epsilon, noise.steps, mask)

    def own_mask(self) -> Tensor | None:
        if self.noise is None or self.noise.share == 1:
            return None
        mask = random_mask(self.clean.shape[1:], self.draw("mask"), self.noise.share)
        return mask.to(self.x.device)
