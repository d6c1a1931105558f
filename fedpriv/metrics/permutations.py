"""How likely so many hits are by chance: owners exchanged at random, guesses kept."""

import numpy as np

from fedpriv.errors import BadInput
from fedpriv.rng import seed_of


def chance_of(guess: np.ndarray, truth: np.ndarray, draws: int = 2000, seed: int = 0) -> float:
    """The p-value of the hits among `guess` under exchanged owners, never 0 (Phipson and Smyth).

    An attack that always names the largest client has many hits, and just as many when owners are
    exchanged: it is no better than chance.
    """
    if guess.shape != truth.shape or not len(guess):
        raise BadInput(f"{len(guess)} guesses cannot be compared with {len(truth)} owners.")
    stream = np.random.default_rng(seed_of(seed, "permutations"))
    hits = int((guess == truth).sum())
    beaten = sum(int((guess == stream.permutation(truth)).sum()) >= hits for _ in range(draws))
    return (1 + beaten) / (1 + draws)
