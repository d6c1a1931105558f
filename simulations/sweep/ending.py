"""The gate of a sweep: is there a defended setting that keeps every victim within it?"""

from collections.abc import Sequence

from fedpriv.errors import GateCrossed, Undecided
from fedpriv.simulations.judging.gate import Gate, counted
from fedpriv.tables import Row


def check_defended(gates: Sequence[Gate], scores: Sequence[Row]) -> None:
    """GateCrossed when every defended setting has a victim beyond a gate."""
    settings: dict[str, list[Row]] = {}
    for row in counted(scores):
        if row["plugins"] != "none":
            settings.setdefault(f"{row['defence']} {row['value']}", []).append(row)
    for gate in gates:
        worst = {name: gate.worst(rows) for name, rows in settings.items()}
        values = {name: float(row[gate.metric]) for name, row in worst.items() if row}
        if not values:
            raise Undecided(f"The gate '{gate}' cannot be checked: no defended setting has scores.")
        if all(map(gate.crossed, values.values())):
            best = (min if gate.above else max)(values, key=lambda name: values[name])
            raise GateCrossed(
                f"The gate '{gate}' is crossed in all {len(values)} defended settings; the best, "
                f"{best.strip()}, has {values[best]:.2f}."
            )
