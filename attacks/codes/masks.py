"""Secret masks of ARS: guessed, searched for, or read off the codes (ARS sect. 6.1).

The paper counts how unlikely a random guess is to come close. Nobody has to guess: a coordinate
that is perturbed has another distribution than the clean codes that anyone can query, and one test
for each coordinate reads the mask.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from fedpriv.attacks.codes.decoder import substitute
from fedpriv.attacks.codes.knowledge import Knowledge
from fedpriv.codes.decoding import decoded
from fedpriv.codes.perturbation import random_mask
from fedpriv.errors import BadOption
from fedpriv.evidence.claims import Attribute, Reconstruction
from fedpriv.progress import Progress, go_on
from fedpriv.training import outputs


def overlap(mask: Tensor, other: Tensor) -> float:
    """o(m1, m2): the share of coordinates in which two masks agree (ARS sect. 6.1)."""
    return float((mask == other).double().mean())


def mask_with_overlap(mask: Tensor, rate: float, draw: torch.Generator) -> Tensor:
    """A guess that agrees with `mask` in exactly `rate` of the coordinates (ARS table 6)."""
    flat = mask.flatten().clone()
    wrong = torch.randperm(len(flat), generator=draw)[: round((1 - rate) * len(flat))]
    flat[wrong] = 1 - flat[wrong]
    return flat.view_as(mask)


def ks_distance(a: Tensor, b: Tensor) -> Tensor:
    """Kolmogorov-Smirnov distance of every coordinate of codes (N, D) and (M, D), as (D,)."""
    n, m = len(a), len(b)
    both = torch.cat([a, b])
    order = both.argsort(dim=0)
    steps = torch.where(order < n, 1.0 / n, -1.0 / m).double()
    gaps = steps.cumsum(dim=0)
    ranked = both.gather(0, order)
    last = torch.ones_like(ranked, dtype=torch.bool)
    last[:-1] = ranked[1:] > ranked[:-1]  # equal values count together
    return gaps.where(last, 0.0).abs().amax(dim=0)


def read_mask(codes: Tensor, clean: Tensor, level: float = 1e-3) -> Tensor:
    """1 where codes differ from clean ones in distribution, at a false-alarm rate of `level`.

    The asymptotic bound of the two-sample test: c(α)·√((n + m)/nm) with c = √(−½ ln(α/2)).
    """
    n, m = len(codes), len(clean)
    bound = (-0.5 * torch.log(torch.tensor(level / 2))).sqrt() * ((n + m) / (n * m)) ** 0.5
    found = ks_distance(codes.flatten(1), clean.flatten(1)) > bound
    result: Tensor = found.float().view(codes.shape[1:])
    return result


def mask_of(knows: Knowledge, party: int, level: float) -> Tensor:
    """A party's mask, read off codes of the same mix of classes as the attacker's clean ones."""
    mine, theirs = knows.alike(party)
    return read_mask(knows.shared[party][theirs], knows.clean[mine], level)


@dataclass(frozen=True)
class MaskReading:
    """Read every victim's mask off its codes, then decode what passes.

    Args:
        level: Chance of calling an unperturbed coordinate perturbed.
        width: Times as wide as the mirror of the encoder.
        use: What to do with perturbed coordinates: drop them, or train on own codes with imitated
            noise on them.
    """

    level: float = 1e-3
    width: int = 1
    use: Literal["drop", "imitate"] = "drop"

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Reconstruction]:
        knows = knows.telling(progress)
        if knows.noise is None:
            raise BadOption("The parties add no adversarial noise, so there is no mask to read.")
        clean = knows.clean
        decoder = substitute(knows, clean, "clean") if self.use == "imitate" else None
        guesses, masks = {}, {}
        for party, codes in knows.shared.items():
            mask = mask_of(knows, party, self.level)
            passed = 1 - mask if decoder is None else torch.ones_like(mask)
            own = clean * passed if decoder is None else knows.perturbed(decoder, mask)
            network = substitute(knows, own, f"mask-{party}", width=self.width)
            guesses[party] = decoded(network, codes * passed)
            masks[party] = {"mask": mask}
        return knows.claimed(guesses, masks)


@dataclass(frozen=True)
class AttributeBehindMask:
    """Read every victim's mask off its codes, then an attribute off the coordinates that pass.

    Args:
        attribute: The attribute to read, such as gender.
        level: Chance of calling an unperturbed coordinate perturbed.
    """

    attribute: str
    level: float = 1e-3

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Attribute]:
        knows = knows.telling(progress)
        found = []
        for party, codes in knows.shared.items():
            passed = 1 - mask_of(knows, party, self.level)
            network = knows.reader(knows.clean * passed, self.attribute, f"passed-{party}")
            guess = outputs(network, codes * passed).argmax(dim=1)
            found.append(knows.read(party, guess, self.attribute))
        return found


@dataclass(frozen=True)
class MaskSearch:
    """Tries random masks; keeps the one whose guesses encode back best (ARS sect. 6.1).

    The paper's attacker compares reconstructions with the truth, which no attacker has.

    Args:
        candidates: Random masks that are tried.
        sample: Codes by which each mask is judged.
    """

    candidates: int = 8
    sample: int = 256

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise BadOption(f"mask-search needs at least 1 candidate, got {self.candidates}.")

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Reconstruction]:
        knows = knows.telling(progress)
        decoder = substitute(knows, knows.clean, "clean")
        share = knows.noise.share if knows.noise else 0.5
        best: dict[int, tuple[float, Tensor, Tensor]] = {}
        for number in range(self.candidates):
            mask = random_mask(knows.clean.shape[1:], knows.draw("candidate", number), share)
            mask = mask.to(knows.x.device)
            network = substitute(knows, knows.perturbed(decoder, mask), f"search-{number}")
            for party, codes in knows.shared.items():
                guess = decoded(network, codes)
                again = knows.query(guess[: self.sample])
                misfit = float(mse_loss(again, codes[: self.sample]))
                if party not in best or misfit < best[party][0]:
                    best[party] = (misfit, guess, mask)
        return knows.claimed(
            {party: guess for party, (_, guess, _) in best.items()},
            {party: {"mask": mask} for party, (_, _, mask) in best.items()},
        )


@dataclass(frozen=True)
class MaskOverlap:
    """An analysis, no attack: masks that agree with the true ones in `rate` of the coordinates.

    Args:
        masks: The true masks, by party.
        rate: Part of the mask that is known.
    """

    masks: Mapping[int, Tensor]
    rate: float = 0.75

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise BadOption(f"mask-overlap: rate must be in [0, 1], got {self.rate}.")

    def __call__(self, knows: Knowledge, progress: Progress = go_on) -> list[Reconstruction]:
        knows = knows.telling(progress)
        decoder = substitute(knows, knows.clean, "clean")
        guesses = {}
        for party, codes in knows.shared.items():
            mask = mask_with_overlap(self.masks[party], self.rate, knows.draw("overlap", party))
            network = substitute(knows, knows.perturbed(decoder, mask), f"overlap-{party}")
            guesses[party] = decoded(network, codes)
        return knows.claimed(guesses)
