"""The section of a page about an audit: what it did, left out, and which defences it tried."""

from typing import Any

from fedpriv.report.blocks import Cell, Section, Table
from fedpriv.report.reading import Run

PASSES = {True: Cell("passes", "good"), False: Cell("falls", "bad"), None: Cell("undecided")}


def audit_section(run: Run) -> Section:
    """Empty for a run that is no audit."""
    found = run.audit
    if not found:
        return Section("audit", "Audit")
    gates = ", ".join(found.get("gates", []))
    crossed = f"was crossed by {found.get('crossed', 0)} of"
    held = "held for all" if found.get("passed") else crossed
    rounds, minutes = found.get("rounds", {}), found.get("minutes", {})
    words = (
        f"The gate {gates} {held} {found.get('attacked', 0)} reconstructions. "
        f"{rounds.get('trained')} of {rounds.get('wanted')} rounds were trained; the audit took "
        f"{minutes.get('used')} of {minutes.get('given')} minutes."
    )
    tables = [table for table in (_defences(found), _left_out(found)) if table.rows]
    return Section("audit", "Audit", words, tables=tables or [_gate(found)])


def _gate(found: dict[str, Any]) -> Table:
    rows = [(gate, found.get("attacked", 0), found.get("crossed", 0)) for gate in found["gates"]]
    return Table("The gate", ("gate", "reconstructions", "beyond it"), rows, frozenset({1, 2}))


def _defences(found: dict[str, Any]) -> Table:
    """What was tried where it leaked worst, mild to strong."""
    rows = []
    for one in found.get("defences", []):
        passes = PASSES[one["passes"]]
        best = " (cheapest)" if one["name"] == found.get("cheapest") else ""
        worst = "–" if one["worst"] is None else f"{one['worst']:.2f}"
        accuracy = "–" if one["accuracy"] is None else f"{one['accuracy']:.1%}"
        attacked = one.get("attacked", "–")
        told = (one["plugins"], attacked, worst, passes, accuracy, one["why"])
        rows.append((one["name"] + best, *told))
    columns = ("defence", "plugins", "reconstructions", "worst leak", "gate", "accuracy", "remark")
    caption = "Defences tried where the federation leaked worst, mild to strong"
    return Table(caption, columns, rows, frozenset({2, 3, 5}))


def _left_out(found: dict[str, Any]) -> Table:
    cells: dict[str, list[str]] = {}
    for one in found.get("left-out", []):
        cells.setdefault(one["cell"], []).append(one["attack"])
    rows = [(cell, ", ".join(attacks)) for cell, attacks in cells.items()]
    return Table("Left out, for want of time", ("cell", "attacks"), rows)
