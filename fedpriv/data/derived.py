"""mnist-odd: digits whose task and private attribute differ, and can both be learned."""

from dataclasses import replace

from fedpriv.data.dataset import Dataset
from fedpriv.data.vision import MNIST


def mnist_odd(root: str | None = None, normalise: bool = True, hub: str = "") -> Dataset:
    """MNIST with two questions: is the digit odd (the task), is it 5 or more (attribute `high`)?

    Who knows whether a digit is odd guesses `high` right for 60 %, not for all.

    Args:
        root: The folder with the files.
        normalise: Scale by the mean and the spread of the training samples. false keeps pixels
            between 0 and 1.
        hub: Another copy on the hub of data sets, by name.
    """
    digits = MNIST.build(root, normalise, hub)
    train, test = digits.y_train, digits.y_test
    return replace(
        digits,
        name="mnist-odd",
        y_train=train % 2,
        y_test=test % 2,
        classes=2,
        attributes={"high": ((train >= 5).long(), (test >= 5).long())},
    )
