"""What a curious party knows when codes are shared.

The attacker's samples are its own, disjoint from its victims'. It may query the published encoder,
sees the codes of the others and knows the settings of their defence, but no mask, decoder or sample
of theirs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from fedpriv.codes.coders import classifier
from fedpriv.codes.decoding import Standardised, frozen
from fedpriv.codes.perturbation import budget, noise_on, random_mask
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Attribute, Reconstruction
from fedpriv.progress import Progress, Told
from fedpriv.rng import generator
from fedpriv.training import fit


@dataclass(frozen=True)
class NoiseSettings:
    """The public settings of the plugin `ars`; `share` 1 is no mask.

    `private` are the attributes that noise pulls towards a class of `targets`, `weights` those of
    the decoder and of each attribute; empty ones are the plugin's defaults.
    """

    epsilon: float
    relative: bool = True
    steps: int = 10
    share: float = 0.5
    private: tuple[str, ...] = ()
    targets: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    def target(self, number: int) -> int:
        """The class that the codes pretend for a private attribute."""
        return self.targets[number] if self.targets else 0


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
    task: str = ""  # what the shared labels are labels of
    shared_labels: Mapping[int, Tensor] = field(default_factory=dict)  # the others', by party
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

    def read(self, party: int, guess: Tensor, attribute: str) -> Attribute:
        """Guesses (N,) of an attribute of a party's samples as a claim."""
        return Attribute(
            guess=guess[None],
            attribute=attribute,
            classes=self.labels[attribute][1],
            names=(self.name(party),),
            partial=self.told.stopped,
            places=torch.arange(len(guess))[None],
        )

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
        attributes = [
            (frozen(self.reader(z, name, "imitated")), noise.target(number))
            for number, name in enumerate(noise.private)
        ]
        return z + noise_on(
            z, self.x, decoder, attributes, noise.weights, epsilon, noise.steps, mask
        )

    def reader(self, z: Tensor, attribute: str, purpose: str) -> nn.Module:
        """A perceptron from codes of its own samples to an attribute of them (ARS eq. 13)."""
        if attribute not in self.labels:
            raise BadOption(
                f"The attacker knows no attribute '{attribute}' of its samples; it knows: "
                f"{', '.join(self.labels) or 'none'}."
            )
        labels, classes = self.labels[attribute]
        return self.perceptron(z, labels, classes, f"{purpose}-{attribute}")

    def perceptron(self, z: Tensor, target: Tensor, units: int, purpose: str) -> nn.Module:
        """From codes to `units` numbers: classes, or features when targets are floats."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.draw("weights", purpose).initial_seed())
            network = nn.Sequential(Standardised(z), classifier(tuple(z.shape[1:]), units))
        network = network.to(z.device)
        fit(
            network,
            z,
            target,
            draw=self.draw("attribute", purpose),
            epochs=self.epochs,
            batch=self.batch,
            lr=self.lr,
            loss=mse_loss if target.is_floating_point() else cross_entropy,
            progress=self.told,
        )
        return network

    def alike(self, party: int) -> tuple[Tensor, Tensor]:
        """Numbers of own samples and of a party's codes with the same mix of shared labels.

        Codes of other classes are distributed differently without any noise. Where no labels are
        shared it is all of both.
        """
        count, theirs = len(self.shared[party]), self.shared_labels.get(party)
        every = torch.arange(len(self.x)), torch.arange(count)
        if theirs is None or self.task not in self.labels:
            return every
        own = self.labels[self.task][0].cpu()
        mine, other = [], []
        for label in theirs.unique().tolist():
            a, b = torch.nonzero(own == label).flatten(), torch.nonzero(theirs == label).flatten()
            few = min(len(a), len(b))
            mine.append(a[:few])
            other.append(b[:few])
        return (torch.cat(mine), torch.cat(other)) if sum(map(len, mine)) else every

    def own_mask(self) -> Tensor | None:
        if self.noise is None or self.noise.share == 1:
            return None
        mask = random_mask(self.clean.shape[1:], self.draw("mask"), self.noise.share)
        return mask.to(self.x.device)
