"""Release: all that an attacker knows of the codes that one party shared in one round."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from fedpriv.codes.release import Shared, below, under
from fedpriv.errors import BadInput, BadObservation
from fedpriv.evidence.files import read_evidence, write_evidence
from fedpriv.scenario.binding import fitted
from fedpriv.state import State

SEES = "codes"
_SENT, _SHARED = "sent", "shared"


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """What one party shared, and the encoder that it was sent; never its samples.

    Args:
        shared: The codes, and the encoder where the party published its own.
        sent: The weights of the encoder that the party was sent.
        round: The server round.
        node: The party's name; in a simulation its partition.

    Example:
        >>> import torch
        >>> from fedpriv import Release
        >>> from fedpriv.codes.release import Shared
        >>> z, test, ids = torch.zeros(5, 8), torch.zeros(2, 8), torch.arange(2)
        >>> Release(shared=Shared(z, test, ids), node=2).name
        '1-2'
    """

    shared: Shared
    sent: State = field(default_factory=dict)
    round: int = 1
    node: int | str = 0

    @property
    def name(self) -> str:
        """`<round>-<node>`, which is also the name of its files."""
        return f"{self.round}-{self.node}"

    @property
    def encoder(self) -> State:
        """The weights of the encoder behind the codes; empty if the party published none."""
        return self.shared.encoder or self.sent

    def save(self, folder: Path | str) -> Path:
        """Write `<round>-<node>.safetensors` and `.json` into `folder`; the path of the first."""
        tensors = under(_SENT, self.sent) | under(_SHARED, self.shared.state())
        facts = {"sees": SEES, "round": self.round, "node": self.node}
        return write_evidence(Path(folder), self.name, tensors, facts)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote; BadObservation says what is wrong with a file."""
        return cls.of(*read_evidence(Path(path)), name=Path(path).name)

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], name: str) -> Self:
        try:
            return cls(
                shared=Shared.of(below(_SHARED, tensors)),
                sent=below(_SENT, tensors),
                **fitted(cls, {key: facts[key] for key in ("round", "node")}, "a release"),
            )
        except (BadInput, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise BadObservation(f"{name} is no release of codes: {error}.") from error
