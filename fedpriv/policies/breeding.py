"""New policies made from the best so far instead of drawn at random (beyond ATS alg. 1)."""

from collections.abc import Collection, Sequence

import torch

from fedpriv.policies.policy import Policy
from fedpriv.policies.transforms import TRANSFORMATIONS

PARENTS = 8  # the best so far, of which two make a child
MUTATION = 0.3  # how often a child's transformation is a new one


def children(
    parents: Sequence[str], count: int, known: Collection[str], length: int, draw: torch.Generator
) -> list[str]:
    """`count` policies of `length` that are not known yet.

    Each place comes from one of two parents, or is mutated.
    """
    found: dict[str, None] = {}
    while len(found) < count:
        one, other = (
            Policy.parse(parents[number]).members[0]
            for number in torch.randint(len(parents), (2,), generator=draw).tolist()
        )
        child = [_inherited(one, other, place, draw) for place in range(length)]
        name = str(Policy((tuple(child),)))
        if name not in known:
            found[name] = None
    return list(found)


def _inherited(
    one: tuple[int, ...], other: tuple[int, ...], place: int, draw: torch.Generator
) -> int:
    if torch.rand((), generator=draw) < MUTATION:
        return int(torch.randint(len(TRANSFORMATIONS), (), generator=draw))
    parent = one if torch.rand((), generator=draw) < 0.5 else other
    return parent[place % len(parent)]
