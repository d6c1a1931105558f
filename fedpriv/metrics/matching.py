"""Which guess stands for which sample: a batch comes back in any order."""

from collections.abc import Callable

import torch
from torch import Tensor

from fedpriv.errors import BadInput

Costs = Callable[[Tensor, Tensor], Tensor]  # (G, *), (T, *) -> (G, T)


def squared_distances(guess: Tensor, truth: Tensor) -> Tensor:
    """Mean squared difference of every guess from every truth, (G, T)."""
    a, b = guess.detach().flatten(1).double(), truth.detach().flatten(1).double()
    return torch.cdist(a, b).square() / a.shape[1]


def assignment(
    guess: Tensor, truth: Tensor, costs: Costs = squared_distances
) -> tuple[Tensor, Tensor]:
    """Indices (of guesses, of truths) of the pairs with the least total cost, by truth.

    Each guess and each truth is used once; of the more numerous side some stay alone. Score
    `guess[g]` against `truth[t]`.
    """
    from scipy.optimize import linear_sum_assignment

    if guess.shape[1:] != truth.shape[1:] or not len(guess) or not len(truth):
        raise BadInput(
            f"Guesses of shape {tuple(guess.shape)} cannot be matched with truths of shape "
            f"{tuple(truth.shape)}; samples must have one shape, and there must be some."
        )
    table = costs(guess, truth).cpu().nan_to_num(nan=1e30, posinf=1e30)
    rows, columns = linear_sum_assignment(table.numpy())
    order = columns.argsort()
    return torch.from_numpy(rows[order]), torch.from_numpy(columns[order])


def nearest(query: Tensor, pool: Tensor, chunk: int = 1024) -> Tensor:
    """The index in `pool` of the sample nearest to each query by MSE (SPN alg. 6), (Q,)."""
    if not len(pool):
        raise BadInput("There is nothing to search: the pool of reconstructions is empty.")
    parts = [squared_distances(part, pool).argmin(dim=1) for part in query.split(chunk)]
    return torch.cat(parts)
