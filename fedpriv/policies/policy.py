"""Policies: `3-1-7` is three transformations in a row, `3-1-7+43-18-18` one of two per sample."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from fedpriv.errors import BadData, BadOption
from fedpriv.policies.transforms import (
    ENHANCEMENT,
    TRANSFORMATIONS,
    check_images,
    transformed,
)
from fedpriv.rng import Source, draws

LONGEST = 3  # ATS sect. 4.4: a search space of 50 + 50² + 50³ = 127,550
NEUTRAL = "none"


@dataclass(frozen=True)
class Draw:
    """What chance decides for B samples; `sign` and `applied` are (B, LONGEST)."""

    member: Tensor
    sign: Tensor
    applied: Tensor

    def __getitem__(self, rows: slice | Tensor) -> "Draw":
        return Draw(self.member[rows], self.sign[rows], self.applied[rows])


@dataclass(frozen=True)
class Policy:
    """One or more sequences of transformations, of which each sample gets one (ATS sect. 4.4)."""

    members: tuple[tuple[int, ...], ...] = ((),)
    probability: float = 1.0  # that one transformation is applied at all; the paper's is 1
    enhancement: float = ENHANCEMENT

    def __post_init__(self) -> None:
        if not self.members:
            raise BadOption(f"A policy needs a member; '{NEUTRAL}' is the one that does nothing.")
        for member in self.members:
            _check_member(member, self)
        if self.members != ((),):
            _check_hybrid(self)
        if not 0 <= self.probability <= 1:
            raise BadOption(f"probability must be in [0, 1], got {self.probability}.")
        if not 0 <= self.enhancement <= 1:
            raise BadOption(f"enhancement must be in [0, 1], got {self.enhancement}; ATS uses 0.5.")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The policy written as `text`."""
        if text.strip() == NEUTRAL:
            return cls()
        try:
            members = tuple(
                tuple(int(number) for number in member.split("-")) for member in text.split("+")
            )
        except ValueError:
            raise BadOption(
                f"'{text}' is no policy: write transformation numbers like 3-1-7, hybrids like "
                f"3-1-7+43-18-18, or {NEUTRAL}."
            ) from None
        return cls(members)

    def __str__(self) -> str:
        return "+".join("-".join(map(str, member)) for member in self.members) or NEUTRAL

    def described(self) -> str:
        """The names behind the numbers."""
        rows = [", ".join(str(TRANSFORMATIONS[n]) for n in member) for member in self.members]
        return " | ".join(rows) or "no transformation"

    def draw(self, count: int, source: Source) -> Draw:
        """The chances for `count` samples."""
        chance = draws(source)
        member = chance.integers(len(self.members), (count,))
        sign = chance.integers(2, (count, LONGEST)) * 2 - 1
        applied = chance.coins(self.probability, (count, LONGEST))
        return Draw(member, sign, applied)

    def apply(self, x: Tensor, draw: Draw) -> Tensor:
        """uint8 images (B, C, H, W), each by the member and the signs drawn for it."""
        if self.members == ((),):
            return x
        if x.dtype != torch.uint8:
            raise BadData(f"Policies transform uint8 images, got {x.dtype}.")
        check_images(x)
        padded = [member + (-1,) * (LONGEST - len(member)) for member in self.members]
        numbers = torch.tensor(padded)[draw.member].where(draw.applied, -1)
        out = x.clone()
        for number, sign in zip(numbers.T, (draw.sign * _signed(numbers)).T, strict=True):
            steps = torch.stack([number, sign], 1)
            for step in steps[number >= 0].unique(dim=0):
                rows = (steps == step).all(1).to(x.device)
                out[rows] = transformed(out[rows], int(step[0]), int(step[1]), self.enhancement)
        return out

    def __call__(self, x: Tensor, source: Source) -> Tensor:
        """uint8 images (B, C, H, W), transformed at random; same source, same images."""
        return self.apply(x, self.draw(len(x), source))


def _signed(numbers: Tensor) -> Tensor:
    """1 where a number's direction matters, else 0: fewer groups to transform."""
    return torch.tensor([row.signed for row in TRANSFORMATIONS] + [False])[numbers].long()


def _check_member(member: tuple[int, ...], policy: Policy) -> None:
    unknown = [number for number in member if not 0 <= number < len(TRANSFORMATIONS)]
    if unknown:
        raise BadOption(
            f"Policy {policy}: there is no transformation {unknown[0]}; the numbers go from 0 to "
            f"{len(TRANSFORMATIONS) - 1} (ATS table 5)."
        )
    if len(member) > LONGEST:
        raise BadOption(
            f"Policy {policy}: a policy has at most {LONGEST} transformations, got {len(member)}."
        )


def _check_hybrid(policy: Policy) -> None:
    seen: dict[int, int] = {}
    for place, member in enumerate(policy.members):
        if not member:
            raise BadOption(f"Policy {policy}: member {place + 1} is empty.")
        for number in member:
            if seen.setdefault(number, place) != place:
                raise BadOption(
                    f"Policy {policy}: two members share transformation {number} "
                    f"({TRANSFORMATIONS[number]}); a hybrid's policies share none (ATS sect. 4.4)."
                )


def random_policy(generator: torch.Generator, longest: int = LONGEST) -> Policy:
    """A policy drawn uniformly from all sequences of 1 to `longest` transformations."""
    base = len(TRANSFORMATIONS)
    sizes = torch.tensor([float(base**length) for length in range(1, longest + 1)])
    length = int(torch.multinomial(sizes, 1, generator=generator)) + 1
    return Policy((tuple(torch.randint(base, (length,), generator=generator).tolist()),))


def check_count(count: int, longest: int) -> None:
    """BadOption unless that many different policies are found quickly."""
    space = sum(len(TRANSFORMATIONS) ** length for length in range(1, longest + 1))
    if not 0 < count <= space // 2:
        raise BadOption(
            f"candidates must be between 1 and {space // 2} for policies of up to {longest} "
            f"transformations, got {count}."
        )


def random_policies(count: int, generator: torch.Generator, longest: int = LONGEST) -> list[Policy]:
    """`count` different policies (the candidates of ATS alg. 1)."""
    check_count(count, longest)
    found: dict[str, Policy] = {}
    while len(found) < count:
        policy = random_policy(generator, longest)
        found[str(policy)] = policy
    return list(found.values())


def hybrid(ranked: Iterable[Policy], size: int = 2) -> Policy:
    """The best `size` policies of a ranking that share no transformation, as one (ATS 4.4)."""
    ranked = list(ranked)
    members: list[tuple[int, ...]] = []
    for member in (member for policy in ranked for member in policy.members):
        if len(members) < size and not set(member) & {n for other in members for n in other}:
            members.append(member)
    return replace(ranked[0], members=tuple(members))
