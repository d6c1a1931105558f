"""Fairness: whether attacks that find nothing could have found something.

A guess that is drawn all the way to the public mean is as good as a blind one, however weak its
attack is. So that says nothing by itself. It counts only where the same attack beats the blind
guess on a control: clients that the attacker planted, without the defence.
"""

import math
from collections.abc import Iterable, Sequence

import scipy

from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import LEVEL
from fedpriv.simulations.audit.shrinking import ENDING
from fedpriv.simulations.judging.gate import counted
from fedpriv.simulations.judging.outcome import (
    BADLY,
    Outcome,
    Word,
    at_best,
    gains_of,
    outcomes,
    spread_of,
)
from fedpriv.tables import Row

HOLDS: Sequence[Word] = ("holds",)


def cells_of(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Scores by the cell that they are of."""
    found: dict[str, list[Row]] = {}
    for row in counted(rows):
        found.setdefault(str(row.get("run", "")), []).append(row)
    return found


def winners(one: Outcome, rows: Iterable[Row]) -> set[str]:
    """The attacks that beat the blind guess beyond chance in what an outcome is about.

    The level is shared among them (Bonferroni), by Student's distribution: controls are few.
    """
    gains = gains_of(one.metric, one.above, rows)
    level = 1 - (1 - LEVEL) / max(1, len(gains))
    return {name for name, values in gains.items() if at_worst(values, level) > 0}


def at_worst(gains: Sequence[float], level: float) -> float:
    """The lower bound of a mean; one value has none."""
    if len(gains) < 2:
        return -math.inf
    far = float(scipy.stats.t.ppf(level, len(gains) - 1))
    return sum(gains) / len(gains) - far * spread_of(gains) / math.sqrt(len(gains))


def unproven(
    gates: Sequence[Gate], rows: Sequence[Row], words: Sequence[Word] = HOLDS
) -> list[Outcome]:
    """What holds in one cell although no attack there beats the blind guess.

    With other `words` what came out so: few clients may hold together with many others.
    """
    return [one for one in outcomes(gates, rows) if one.word in words and not winners(one, rows)]


def shown_to_work(one: Outcome, rows: Sequence[Row], controls: Sequence[Row]) -> bool:
    """Whether an attack that is not worse than a blind guess here beats it on a control."""
    gains = gains_of(one.metric, one.above, rows)
    fair = {name.removesuffix(ENDING) for name in gains if at_best(gains[name]) >= 0}
    return bool(fair & winners(one, controls))


def of_fairness(
    gates: Sequence[Gate],
    rows: Iterable[Row],
    controls: Iterable[Row],
    words: Sequence[Word] = HOLDS,
) -> list[str]:
    """Doubts about cells that were attacked badly, or by attacks that no control shows to work.

    `words` are those that need an attack that works.
    """
    known = cells_of(controls)
    found = []
    for cell, own in cells_of(rows).items():
        bad = [one.why for one in outcomes(gates, own) if one.why.startswith(BADLY)]
        found += [f"{cell}: {why}" for why in bad]
        for one in unproven(gates, own, words):
            if not shown_to_work(one, own, known.get(cell, [])):
                found.append(
                    f"{cell}: the best attack on the {one.claim} is no better than a blind guess "
                    "and no control shows that it works here"
                )
    return found
