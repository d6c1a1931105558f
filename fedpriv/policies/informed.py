"""For an attacker who knows the policy: its transformations in differentiable form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from fedpriv.errors import BadOption
from fedpriv.policies.policy import Policy
from fedpriv.policies.transforms import ENHANCEMENT, TRANSFORMATIONS, check_images, smoothed


@dataclass(frozen=True)
class Branch:
    """One outcome of a policy's chances: these transformations, in these directions."""

    numbers: tuple[int, ...]
    signs: tuple[int, ...]
    enhancement: float = ENHANCEMENT

    def __call__(self, x: Tensor) -> Tensor:
        """Images in [0, 1], (…, C, H, W)."""
        check_images(x)
        for number, sign in zip(self.numbers, self.signs, strict=True):
            x = smoothed(x, number, sign, self.enhancement)
        return x

    def __str__(self) -> str:
        steps = zip(self.numbers, self.signs, strict=True)
        return "-".join(f"{number}{'+' if sign > 0 else '−'}" for number, sign in steps) or "none"


def branches(policy: Policy) -> tuple[Branch, ...]:
    """All that `policy` may have done to one sample, each outcome once."""
    found: dict[Branch, None] = {}
    for member in policy.members:
        choices = []
        for number in member:
            taken = [
                (number, sign) for sign in ((1, -1) if TRANSFORMATIONS[number].signed else (1,))
            ]
            choices.append(taken + [None] * (policy.probability < 1))
        for outcome in product(*choices):
            steps = [step for step in outcome if step is not None]
            numbers, signs = (
                (tuple(column) for column in zip(*steps, strict=True)) if steps else ((), ())
            )
            found[Branch(numbers, signs, policy.enhancement)] = None
    return tuple(found)


def differentiable(
    policy: Policy | Branch,
    signs: Sequence[int] = (),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Callable[[Tensor], Tensor]:
    """x -> the policy's image of x, for gradients to pass; `signs` are +1 where none are given.

    With `mean` and `std` both sides are normalised images, as a model sees them.
    """
    branch = policy if isinstance(policy, Branch) else _branch(policy, signs)
    if not mean and not std:
        return branch
    centre = torch.tensor(mean).view(-1, 1, 1)
    spread = torch.tensor(std).view(-1, 1, 1)

    def through(x: Tensor) -> Tensor:
        c, s = centre.to(x), spread.to(x)
        return (branch(x * s + c) - c) / s

    return through


def _branch(policy: Policy, signs: Sequence[int]) -> Branch:
    if len(policy.members) > 1:
        raise BadOption(
            f"Policy {policy} chooses among {len(policy.members)}; take one of branches(policy)."
        )
    (member,) = policy.members
    if len(signs) not in (0, len(member)) or not set(signs) <= {1, -1}:
        raise BadOption(
            f"Policy {policy} needs {len(member)} signs, each 1 or -1; got {list(signs)}."
        )
    return Branch(member, tuple(signs) or (1,) * len(member), policy.enhancement)
