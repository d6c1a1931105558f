"""The section of a page about ε: what is claimed, and what `verify-dp` found, side by side."""

from collections.abc import Iterator
from typing import Any

from fedpriv.report.blocks import Cell, Section, Table
from fedpriv.report.reading import Run

TONES = {"refuted": "bad"}
COLUMNS = ("tried", "unit", "neighbours", "δ", "ε claimed", "ε at least", "control", "answer")


def epsilon_section(run: Run) -> Section:
    """Empty for a run whose ε nobody has tried to refute."""
    found = run.folder.verified()
    rows = [row for how, one in found.items() for row in _rows(how, one)]
    if not rows:
        return Section("epsilon", "Does ε hold?")
    words = " ".join(one["sentence"] for one in found.values())
    words = f"{words[:1].upper()}{words[1:]} Not refuted does not mean safe."
    table = Table("Claimed and empirical ε", COLUMNS, rows, frozenset({3, 4, 5, 6}))
    return Section("epsilon", "Does ε hold?", words, tables=[table])


def _rows(how: str, found: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    claim = found["claimed"]
    asked = claim["unit"], claim["neighbours"], f"{claim['delta']:g}", f"{claim['epsilon']:.3g}"
    answer = Cell(found["answer"], TONES.get(found["answer"], ""))
    if how == "claim":
        yield "on paper", *asked, f"{found['epsilon']['low']:.3g}", "–", answer
        return
    for place, one in found.get("places", {}).items():
        seen = f"{one['control']:.3g}" + ("" if one["sees"] else " (sees nothing)")
        yield f"canaries, from {place}", *asked, f"{one['epsilon']:.3g}", seen, answer
