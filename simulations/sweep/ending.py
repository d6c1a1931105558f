"""The gate of a sweep: is there a defended setting that keeps every victim within it?"""

from collections.abc import Sequence

from fedpriv.errors import GateCrossed, Undecided
from fedpriv.metrics.gates import Gate
from fedpriv.simulations.judging.gate import counted
from fedpriv.tables import Row


def check_defended(gates: Sequence[Gate], scores: Sequence[Row], cells: Sequence[Row] = ()) -> None:
    """GateCrossed when every defended setting has a victim beyond one of the gates.

    `cells` are the sweep's results. A setting with a cell that failed was not tested fully: when
    no other holds, nothing is decided.
    """
    if not gates:
        return
    settings: dict[str, list[Row]] = {}
    for row in counted(scores):
        if row["plugins"] != "none":
            settings.setdefault(named(row), []).append(row)
    worst = {
        name: [(gate, found) for gate in gates if (found := gate.worst(rows)) is not None]
        for name, rows in settings.items()
    }
    crossed = {
        name
        for name, found in worst.items()
        if any(gate.crossed(float(row[gate.metric])) for gate, row in found)
    }
    doubtful = {named(cell) for cell in cells if cell.get("error")}
    doubtful |= {name for name, found in worst.items() if len(found) < len(gates)}
    if settings.keys() - crossed - doubtful:
        return
    shown = ", ".join(f"'{gate}'" for gate in gates)
    if not settings or doubtful - crossed:
        raise Undecided(f"The gate {shown} is not decided: no defended setting was tested fully.")
    raise GateCrossed(f"The gate {shown} is crossed in all {len(settings)} defended settings.")


def named(row: Row) -> str:
    """A setting by its defence and value."""
    value = row.get("value")
    return str(row["defence"]) if value in (None, "") else f"{row['defence']} {value}"
