"""The section of a page about ε: what is claimed, and what `verify-dp` found, side by side."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedpriv.report.blocks import Cell, Section, Table
from fedpriv.report.reading import Run

TONES = {"refuted": "bad"}
COLUMNS = ("tried", "unit", "neighbours", "δ", "ε claimed", "ε at least", "control", "answer")


def epsilon_section(run: Run) -> Section:
    """The card of a run that claims an ε, and what was tried against it; empty without an ε."""
    found, card = run.folder.verified(), run.folder.card()
    tables = [
        Table("The DP card (rows as in NIST SP 800-226)", ("", "of this run"), card_rows(one))
        for one in ([card, *card.get("beside", [])] if card else [])
    ]
    rows = [row for how, one in found.items() for row in _rows(how, one)]
    words = "Nobody has tried to refute this ε with canaries; see `fedpriv verify-dp run`."
    if rows:
        tables.append(Table("Claimed and empirical ε", COLUMNS, rows, frozenset({3, 4, 5, 6})))
        words = " ".join(one["sentence"] for one in found.values())
        words = f"{words[:1].upper()}{words[1:]} Not refuted does not mean safe."
    return Section("epsilon", "Does ε hold?", words if tables else "", tables=tables)


def card_rows(card: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A card as lines of a table: a name and its words."""
    claimed = "none" if card["epsilon"] is None else f"{card['epsilon']:.4g}"
    computed = card["computed"]
    span = " to ".join(dict.fromkeys(f"{computed[end]:.4g}" for end in ("low", "high")))
    return [
        ("unit", card["unit"]),
        ("neighbours", card["neighbours"]),
        ("ε claimed", f"{claimed} at δ = {card['delta']:g}"),
        ("ε of the settings", f"{span} by {computed['by']}{_tighter(card)}"),
        ("ε by canaries", _empirical(card["empirical"])),
        ("mechanism", card["mechanism"]),
        ("accountant", card["accountant"]),
        ("trust", card["trust"]),
        ("in no ε", "; ".join(card["outside"])),
    ]


def _tighter(card: Mapping[str, Any]) -> str:
    """Why the computed ε is below the claimed one, and which of them to quote."""
    if card["epsilon"] is None or card["epsilon"] <= card["computed"]["high"]:
        return ""
    return (
        ": a tighter account of the same noise. Quote the ε claimed; it is the one that the "
        "clients keep to"
    )


def _empirical(found: Mapping[str, Any] | None) -> Any:
    if found is None:
        return "not tried"
    given = "" if found["assumes"] in ("", "nothing") else f", given {found['assumes']}"
    words = f"at least {found['epsilon-at-least']:.3g}{given}: {found['answer']}"
    return Cell(words, TONES.get(found["answer"], ""))


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
