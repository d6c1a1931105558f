"""What a server that is told more draws, and what follows for one that is told less.

Whoever is told less draws no more. So the share of samples that the better informed server draws
bounds what the real one can draw, and its hits are no leak of the federation. Samples of a client
may be drawn together: the bound is about the mean share over clients (`mean_at_most`).

It asks about one batch of each client. So its bounds are about samples, also without a hit: a
client has many batches, and that none of one batch is drawn says little about all of its samples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import LEVEL, SHARE, mean_at_most
from fedpriv.simulations.judging.outcome import Outcome, attacked_badly, leaked, victim_of
from fedpriv.tables import Row


def indirect(one: Outcome, parts: Iterable[Sequence[Row]]) -> Outcome:
    """The outcome for a server that is told less; `parts` are scores of rounds or settings.

    Each part has its own bound, and the largest counts. What is undecided stays so.
    """
    if one.word == "undecided" or one.bound is None:
        return one
    gate, bounds = Gate(one.metric, one.above, one.bound), list[float]()
    for rows in parts:
        measured = gate.measured(rows)
        shares = list(shares_of_clients(gate, measured).values())
        if why := attacked_badly(gate, measured):
            return replace(one, word="undecided", why=why)
        bounds.append(mean_at_most(shares, LEVEL) if shares else 1.0)
    most = max(bounds, default=1.0)  # nothing was asked, nothing is bounded
    about = replace(one, low=0.0, high=most, most=most, unit="sample")
    if most <= SHARE:
        return replace(about, word="holds")
    return replace(about, word="undecided", why=drawn(one, most))


def drawn(one: Outcome, most: float) -> str:
    """What is said where too many are drawn for a bound."""
    return (
        f"someone who is told more draws {one.hits} of {one.victims} samples of {one.clients} "
        f"clients, so that only at most {most:.1%} follows ({SHARE:.0%} are allowed); whether the "
        "updates themselves give these away was not tested"
    )


def shares_of_clients(gate: Gate, rows: Iterable[Row]) -> dict[str, float]:
    """The part of each client's samples that any attack draws beyond the gate."""
    samples: dict[str, dict[str, bool]] = {}
    for row in rows:
        node, victim = victim_of(row)
        known = samples.setdefault(node, {})
        known[victim] = known.get(victim, False) or leaked(row, gate)
    return {node: sum(known.values()) / len(known) for node, known in samples.items()}
