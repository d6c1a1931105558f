"""Claims about a whole training set: who was in it, whose a sample is, what a client holds."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fedpriv.evidence.claims import Asked, Claim, Public, Views
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.membership import false_alarms
from fedpriv.rng import generator

OWNER, SHARES, RATE = "owner", "shares", "rate"  # what the judge puts among a truth's secrets
RIGHT = "right"  # whether the last public model has a candidate's label right


def members_of(truth: Truth) -> Tensor:
    """The places of the candidates that somebody trained on."""
    return (truth.secrets[OWNER] >= 0).nonzero().flatten()


@dataclass(frozen=True, kw_only=True, eq=False)
class Members(Claim):
    """The claim "these candidates were in the training set, rather than those".

    Args:
        scores: (1, M), higher for candidates that are more likely members.

    Example:
        >>> import torch
        >>> from fedpriv import Members
        >>> Members(scores=torch.tensor([[0.9, 0.1]]), names=("8-10",)).kind
        'member'
    """

    kind: ClassVar[str] = "member"
    gives: ClassVar[tuple[str, ...]] = ("member",)
    asked: ClassVar[Asked] = "candidates"

    scores: Tensor

    def pairs(self, truth: Truth) -> tuple[Tensor, Tensor]:
        """A victim is a member: held-out candidates have no row of their own."""
        places = members_of(truth)
        return places, places

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        others = self.scores[0][truth.secrets[OWNER] < 0]
        return {"member": (false_alarms(self.scores[0][g], others), torch.ones(len(t)))}

    def said(self, truth: Truth, g: int, t: int) -> dict[str, Any]:
        """Whose the member is, how many were held out, and how over-fitted the model is."""
        member = truth.secrets[OWNER] >= 0
        row: dict[str, Any] = {
            "node": int(truth.secrets[OWNER][t]),
            "score": float(self.scores[0][g]),
            "others": int((~member).sum()),
        }
        if RIGHT in self.found:
            right = self.found[RIGHT][0].double()
            row["gap"] = round(float(right[member].mean() - right[~member].mean()), 6)
        return row

    def blind(self, public: Public) -> Self:
        """Scores by chance."""
        stream = generator(0, "blind", self.scores.shape[1])
        return replace(self, scores=torch.rand(self.scores.shape, generator=stream))


@dataclass(frozen=True, kw_only=True, eq=False)
class Owners(Claim):
    """The claim "this candidate is that client's", about candidates that are known to be members.

    Args:
        guess: (1, M), a client for each of them.

    Example:
        >>> import torch
        >>> from fedpriv import Owners
        >>> Owners(guess=torch.tensor([[3, 0]]), names=("8-10",)).gives
        ('owner',)
    """

    kind: ClassVar[str] = "owner"
    gives: ClassVar[tuple[str, ...]] = ("owner",)
    asked: ClassVar[Asked] = "candidates"

    guess: Tensor

    def pairs(self, truth: Truth) -> tuple[Tensor, Tensor]:
        places = members_of(truth)
        return places, places

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        return {"owner": (self.guess[0][g], truth.secrets[OWNER][t])}

    def said(self, truth: Truth, g: int, t: int) -> dict[str, Any]:
        real = int(truth.secrets[OWNER][t])
        return {"node": real, "guess": int(self.guess[0][g]), "truth": real}

    def blind(self, public: Public) -> Self:
        """One client that was seen, for everybody: each has as many candidates."""
        return replace(self, guess=torch.full_like(self.guess, int(self.guess.min())))


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares(Claim):
    """The claim "a client's samples are of these classes, in these shares".

    Args:
        shares: (V, C), which add up to 1 for each client.

    Example:
        >>> import torch
        >>> from fedpriv import Shares
        >>> Shares(shares=torch.tensor([[0.5, 0.5]]), names=("8-3",)).kind
        'classes'
    """

    kind: ClassVar[str] = "classes"
    gives: ClassVar[tuple[str, ...]] = ("classes",)
    asked: ClassVar[Asked] = "client"

    shares: Tensor

    def pairs(self, truth: Truth) -> tuple[Tensor, Tensor]:
        return torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        return {"classes": (self.shares[:1], truth.secrets[SHARES][None])}

    def blind(self, public: Public) -> Self:
        """The shares of the classes in public samples, for every client."""
        counts = torch.bincount(public.y.long(), minlength=self.shares.shape[1]).float()
        return replace(self, shares=(counts / counts.sum()).expand_as(self.shares).clone())


@dataclass(frozen=True, kw_only=True, eq=False)
class Rates(Claim):
    """The claim "so many of a client's samples have this private attribute".

    Args:
        rate: (V,), from 0 to 1.
        attribute: The attribute's name.
        value: The class of it that is counted.

    Example:
        >>> import torch
        >>> from fedpriv import Rates
        >>> Rates(rate=torch.tensor([0.3]), attribute="sex", names=("8-3",)).kind
        'rate'
    """

    kind: ClassVar[str] = "rate"
    gives: ClassVar[tuple[str, ...]] = ("rate",)
    asked: ClassVar[Asked] = "client"

    rate: Tensor
    attribute: str
    value: int = 1

    def pairs(self, truth: Truth) -> tuple[Tensor, Tensor]:
        return torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)

    def views(self, truth: Truth, g: Tensor, t: Tensor) -> Views:
        if RATE not in truth.secrets:
            return {}
        return {"rate": (self.rate[:1], truth.secrets[RATE][None])}

    def said(self, truth: Truth, g: int, t: int) -> dict[str, Any]:
        return {"attribute": self.attribute, "guess": round(float(self.rate[0]), 6)}

    def blind(self, public: Public) -> Self:
        """The rate among public samples, for every client."""
        often = (public.attributes[self.attribute] == self.value).float().mean()
        return replace(self, rate=often.expand_as(self.rate).clone())
