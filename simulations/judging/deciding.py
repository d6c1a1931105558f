"""What scores decide: every kind of claim by its own rule, or the gates that somebody set."""

from collections.abc import Iterable, Sequence

from fedpriv.metrics.gates import Gate
from fedpriv.simulations.judging.gate import counted
from fedpriv.simulations.judging.inferred import JUDGES, ORDER, inferred
from fedpriv.simulations.judging.outcome import Outcome, outcomes
from fedpriv.tables import Row


def answered(gates: Sequence[Gate], rows: Iterable[Row], held: Sequence[Outcome]) -> list[Outcome]:
    """What scores decide, with what someone who is told more cannot claim: only a leak undoes it.

    A kind of claim that is answered so needs no other scores.
    """
    direct, known = decided(gates, rows), {(one.claim, one.metric) for one in held}
    leaking = {(one.claim, one.metric) for one in direct if one.word == "leaks"}
    return [
        *(one for one in held if (one.claim, one.metric) not in leaking),
        *(one for one in direct if (one.claim, one.metric) not in known - leaking),
    ]


def decided(gates: Sequence[Gate], rows: Iterable[Row]) -> list[Outcome]:
    """An outcome for every gate; without gates for every kind of claim that was scored.

    Claims about a whole training set have rules of their own (`judging.inferred`). Where two rules
    are about one kind, as reconstructions and updates are about owners, the worse outcome counts.
    """
    scores = counted(rows)
    if gates:
        return outcomes(gates, scores)
    apart = [row for row in scores if row.get("claim") not in JUDGES]
    found: dict[str, Outcome] = {}
    for one in (*outcomes((), apart), *inferred(scores)):
        known = found.get(one.claim)
        if known is None or ORDER[one.word] < ORDER[known.word]:
            found[one.claim] = one
    return list(found.values())
