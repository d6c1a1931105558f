"""One thing that stands in an attack's way."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["fatal", "mismatch", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """`cause` is a short name; fatal: hopeless as recorded; mismatch: facts and update disagree, so
    that an attack would look for the wrong thing; warning: it will be harder; note: choose the
    attack accordingly.
    """

    cause: str
    severity: Severity
    detail: str
