"""What is known, guessed and unknown of recorded updates, and the option that sets each fact."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from fedpriv.errors import BadObservation
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.observation import Observation
from fedpriv.scenario.binding import kebab
from fedpriv.simulations.judging.recordings import SETTABLE

State = Literal["known", "guessed", "unknown"]
GUESSED = {"classes": "the rows of the last matrix"}  # what a recorder reads off the messages


def updates_in(folder: Path) -> list[Observation]:
    """The updates of a folder that record_to wrote, or of a run folder."""
    place = folder / "observations" if (folder / "observations").is_dir() else folder
    good, _ = load_folder(place)
    found = [seen for seen in good if isinstance(seen, Observation)]
    if not found:
        raise BadObservation(f"'{folder}' holds no recorded update; record some with record_to.")
    return found


def facts_of_all(updates: Sequence[Observation]) -> list[dict[str, Any]]:
    """A row for each fact: its state, its value or values, and how to set it."""
    rows = []
    for name in sorted(SETTABLE):
        values = [seen.facts[name] for seen in updates]
        distinct = list(dict.fromkeys(map(repr, values)))
        nothing = all(value is None for value in values)
        state: State = "unknown" if nothing else "known"
        told = ", ".join(distinct[:3]) + (" …" if len(distinct) > 3 else "")
        if name in GUESSED and not nothing:
            state, told = "guessed", f"{told} ({GUESSED[name]})"
        if None in values and not nothing:
            told += f"; unknown in {values.count(None)} of {len(values)} updates"
        rows.append(
            {
                "fact": kebab(name),
                "state": state,
                "value": "" if nothing else told,
                "set": f"--set {kebab(name)}=…",
            }
        )
    order = ("unknown", "guessed", "known")
    return sorted(rows, key=lambda row: order.index(row["state"]))
