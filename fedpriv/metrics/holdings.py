"""How near a guess of what a client holds comes to the truth: shares of classes, rates."""

from torch import Tensor

PRESENT = 0.01  # a class with a smaller share counts as absent, guessed or true


def share_error(guess: Tensor, truth: Tensor) -> Tensor:
    """The sum over classes of |guessed share − true share|, from 0 to 2, (N,)."""
    return (guess.double() - truth.double()).abs().sum(dim=1)


def presence(guess: Tensor, truth: Tensor) -> Tensor:
    """The share of classes of which it is said rightly whether they are 1 % of the client's, (N,).

    Both sides have the same limit. A guess of shares cannot say whether a class has no sample or
    three of a thousand.
    """
    return ((guess >= PRESENT) == (truth >= PRESENT)).double().mean(dim=1)


def rate_error(guess: Tensor, truth: Tensor) -> Tensor:
    """|guessed rate − true rate| of an attribute, (N,)."""
    return (guess.double() - truth.double()).abs()
