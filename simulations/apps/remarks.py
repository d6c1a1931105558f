"""What an app's clients do that its server may not think of: notes beside the findings."""

from collections.abc import Iterator

from fedpriv.simulations.apps.watching import Watched


def remarks(watched: Watched) -> Iterator[tuple[str, str]]:
    """A cause and a sentence for each."""
    for told, trained in sorted(watched.miscounted)[:1]:
        yield (
            "num-examples",
            f"the app reports {told} examples, which is its number of batches, where a client "
            f"trained on {trained} samples: FedAvg weighs clients by it.",
        )
    rates = [one.rates for one in watched.notes if len(set(one.rates)) > 1]
    if rates:
        yield (
            "schedule",
            f"the learning rate changes within a round, from {rates[0][0]:g} to {rates[0][-1]:g}; "
            "attacks take its mean.",
        )
    pieces = max((one.pieces for one in watched.notes), default=1)
    if pieces > 1:
        yield (
            "accumulation",
            f"the gradients of {pieces} batches are added up before a step; attacks take them as "
            "one batch.",
        )
    factors = sorted({round(one.factor, 2) for one in watched.notes})
    if factors and factors != [1.0]:
        yield (
            "gradient-scale",
            f"a client's gradients are {factors[0]:g} to {factors[-1]:g} times those of the plain "
            "mean loss, as after clipping, a sum in place of a mean, or gradients added up.",
        )
    for scaled in sorted({text for one in watched.notes for text in one.scaled}):
        yield "loss", f"the loss is no plain mean over samples: {scaled}."
    if watched.target is not None:
        yield (
            "target",
            f"the loss ({', '.join(sorted(watched.losses))}) has no classes; a sample is "
            + ("its input." if watched.target.y is None else "its input and its target together."),
        )
