"""PolicySet: the result of a search, `policies.json`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from fedpriv.errors import BadFolder, FedprivError
from fedpriv.files import write_text
from fedpriv.policies.policy import Policy, hybrid, random_policy
from fedpriv.rng import generator

RANDOM = "random"


@dataclass(frozen=True)
class Candidate:
    """A policy and its scores, with how many rounds and images they rest on."""

    policy: str
    accuracy: float  # S_acc, higher is better
    rounds: int
    privacy: float  # S_pri, lower is better
    images: int
    exact: bool  # False: S_pri is estimated from a sketch, since the race was decided by then
    kept: bool


@dataclass(frozen=True)
class PolicySet:
    """The policies that a search kept, best first, and how it came to them."""

    policies: tuple[str, ...]
    data: str
    model: str
    threshold: float  # T_acc
    candidates: tuple[Candidate, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)  # seconds, gradients …

    def hybrid(self, size: int = 2) -> Policy:
        """The best `size` of them that share no transformation."""
        return hybrid(map(Policy.parse, self.policies), size)

    def save(self, path: Path) -> None:
        table = {"hybrid": str(self.hybrid()), **asdict(self)}
        write_text(path, json.dumps(table, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """BadFolder says what is wrong with a file that is not one."""
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            table.pop("hybrid", None)
            table["candidates"] = tuple(Candidate(**row) for row in table.get("candidates", ()))
            found = cls(**table | {"policies": tuple(table["policies"])})
            if not found.policies:
                raise ValueError("it lists no policy")
            found.hybrid()
        except OSError as error:
            raise BadFolder(f"{path} cannot be read: {error.strerror or error}.") from error
        except (ValueError, TypeError, KeyError, AttributeError, FedprivError) as error:
            raise BadFolder(
                f"{path} is no result of `fedpriv search`: {error}. Search again, or name a policy "
                "such as 3-1-7+43-18-18."
            ) from error
        return found


@lru_cache(maxsize=16)
def named(text: str, members: int = 2, seed: int = 0) -> tuple[Policy, str]:
    """The policy people mean by `text`, and the data set it was searched on, if any.

    `3-1-7+43-18-18`, `none`, a file of `fedpriv search` (the best `members` of it that share no
    transformation), or `random` (one policy for each `seed`).
    """
    if text == RANDOM:
        return random_policy(generator(seed, "random policy")), ""
    if text.endswith(".json"):
        found = PolicySet.load(Path(text))
        return found.hybrid(members), found.data
    return Policy.parse(text), ""
