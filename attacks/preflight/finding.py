"""One thing that stands in an attack's way."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["fatal", "mismatch", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """Something that stands in the way of an attack; `cause` is its short name.

    Severities: "fatal" means hopeless as recorded. "mismatch" means that facts and update disagree,
    so that an attack would look for the wrong thing. "warning" means harder. "note" is advice on
    which attack to choose.
    """

    cause: str
    severity: Severity
    detail: str
