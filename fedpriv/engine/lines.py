"""The lines of a program: rules in order, what each reads, and whose gradients it gives."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedpriv.engine.rules import Rule
from fedpriv.state import State


class Unknown(Exception):
    """A layer or a pattern for which there is no rule; the general path takes it."""


@dataclass(frozen=True, eq=False)
class Line:
    """One rule, the slots it reads, and where its gradients go.

    Slot 0 is x; line i writes slot i + 1.

    `deep` slots depend on parameters before them: only they need dL/da in the first backward pass.
    """

    rule: Rule
    reads: tuple[int, ...]
    deep: bool
    names: dict[str, str]


class Lines:
    """The lines written so far, and the parameters that they own."""

    def __init__(self, weights: State, buffers: State) -> None:
        self.weights, self.buffers = weights, buffers
        self.found: list[Line] = []
        self.deep = [False]
        self.used: set[str] = set()

    def add(self, rule: Rule, reads: Sequence[int], names: dict[str, str] | None = None) -> int:
        """The slot that the new line writes."""
        deep = any(self.deep[slot] for slot in reads)
        self.found.append(Line(rule, tuple(reads), deep, names or {}))
        self.deep.append(deep or bool(names))
        return len(self.found)

    def owned(self, path: str, **roles: str) -> dict[str, str]:
        """The parameters of a module that exist, by role; each may be used once."""
        found = {
            role: f"{path}.{name}" if path else name
            for role, name in roles.items()
            if (f"{path}.{name}" if path else name) in self.weights
        }
        if self.used & set(found.values()):
            raise Unknown(f"'{path}' is used twice")
        self.used |= set(found.values())
        return found
