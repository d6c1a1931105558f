"""Guesses drawn towards the mean public sample, as far as planted clients say that it pays.

An attacker who knows that a guess is mostly noise does better by saying less. How much less is
measured on clients that the attacker planted: they trained with the same plugins, the attacker
knows their samples, and none of them is counted as a victim. On evidence that says nothing the
guess becomes the blind one, so that no attack has to be worse than blind.
"""

from collections.abc import Iterable
from dataclasses import replace

from torch import Tensor

from fedpriv.evidence.claims import Reconstruction
from fedpriv.evidence.truth import Truth
from fedpriv.runfolder import RunFolder

ENDING = "-shrunk"
NEARLY = 0.97  # a guess that is drawn less than this is left as it is


def factor(pairs: Iterable[tuple[Reconstruction, Truth]], mean: Tensor) -> float | None:
    """The share of guess minus mean that has the least squared error; None without a guess.

    Guesses are noise where it is 0 and exact where it is 1.
    """
    product, square = 0.0, 0.0
    for claim, truth in pairs:
        g, t = claim.pairs(truth)
        guess, real = claim.x[0][g] - mean, truth.x[t] - mean
        product += float((guess * real).sum())
        square += float(guess.square().sum())
    return None if square == 0 else min(1.0, max(0.0, product / square))


def drawn(claim: Reconstruction, mean: Tensor, share: float) -> Reconstruction:
    """The claim with that share of guess minus mean kept."""
    return replace(claim, x=mean + share * (claim.x - mean))


def shrink(folder: RunFolder, label: str, planted: set[str], mean: Tensor) -> str:
    """Write an attack's shrunken claims beside its own; their label, or nothing to write."""
    claims = [
        claim
        for claim in folder.claims(label)
        if isinstance(claim, Reconstruction) and claim.x.shape[2:] == mean.shape
    ]
    own = [claim for claim in claims if set(claim.names) <= planted]
    known = [(claim, truth) for claim in own if (truth := folder.truth_of(claim.names[0]))]
    share = factor(known, mean)
    if share is None or share >= NEARLY:
        return ""
    for claim in claims:
        if not set(claim.names) & planted:
            found = drawn(claim, mean, share)
            found = replace(found, extra={**found.extra, "shrunk-to": round(share, 4)})
            found.save(folder.claim_file(label + ENDING, claim.names[0]))
    return label + ENDING
