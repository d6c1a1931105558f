"""Outcomes: what scores decide about one kind of claim: leaks, holds or undecided.

A victim is one sample of one client. Its worst score over all attacks and rounds counts once. A
score that is no better than a blind guess is no leak. Where every attack is worse than a blind
guess, nothing holds: it was attacked badly.

Samples behind one update may leak together, so that updates are what is independent: bounds are
about clients then. A code is read by itself, and every client's codes are read: there bounds are
about samples.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fedpriv.catalogue import METRICS
from fedpriv.columns import BLIND
from fedpriv.metrics.gates import Gate
from fedpriv.metrics.rates import (
    LEVEL,
    SHARE,
    at_most,
    exact_interval,
    independent,
    share_between,
    victims_for,
)
from fedpriv.simulations.judging.gate import counted
from fedpriv.tables import Row

Word = Literal["leaks", "holds", "undecided"]
Unit = Literal["client", "sample"]
BADLY = "it was attacked badly"
WHOLE = ("owner", "member")  # claims about candidates of all clients, each judged by itself
Z = 1.645  # of the normal distribution, one side, 95 %


@dataclass(frozen=True)
class Outcome:
    """What was found out about one kind of claim.

    `hits` of `victims` samples of `clients` clients leaked, and `clients_hit` clients had one that
    did. `low` and `high` are the exact 95 % interval of a share: of what `unit` says where values
    have a bound, and of samples where hits are counted. `limit` is the share that is still allowed:
    a tenth for values with a bound, the blind guess's own share plus the metric's margin for hits.
    At most `clients_high` of all clients have a sample that leaks (one side, 95 %). `most` is the
    bound that "holds" says, where it is another one than that of `counted`.
    """

    claim: str
    metric: str
    bound: float | None
    word: Word
    victims: int
    clients: int
    hits: int
    low: float
    high: float
    limit: float
    worst: float | None = None
    blind: float | None = None
    attack: str = ""
    why: str = ""
    clients_hit: int = 0
    clients_high: float = 1.0
    unit: Unit = "client"
    most: float | None = None

    @property
    def at_most(self) -> float:
        """The bound that "holds" says."""
        hits, count = self.counted
        if self.most is not None or not count:
            return 1.0 if self.most is None else self.most
        return at_most(hits, count, LEVEL)

    @property
    def counted(self) -> tuple[int, int]:
        """Hits and how many there are of what bounds are about: clients or samples."""
        by_client = self.unit == "client"
        return (self.clients_hit, self.clients) if by_client else (self.hits, self.victims)

    @property
    def above(self) -> bool:
        """Whether more of the metric is more of a leak."""
        return METRICS.build(self.metric).leaks == "high"

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "most": None if self.bound is None else self.at_most}


def outcomes(gates: Sequence[Gate], rows: Iterable[Row]) -> list[Outcome]:
    """An outcome for every gate; without gates for every kind of claim that was scored.

    Then each kind has its own bound: that of the first metric of the catalogue that has one and
    was measured.
    """
    scores = counted(rows)
    if gates:
        return [by_gate(gate, scores) for gate in gates]
    found: dict[str, Outcome] = {}
    seen: set[str] = set()  # kinds that a metric has answered, or that a blind guess knows
    for name in METRICS:
        metric = METRICS.build(name)
        measured = [row for row in scores if number_in(row, name) is not None]
        if not measured or not metric.decides or metric.of in seen:
            continue
        seen.add(metric.of)
        if metric.bound is not None:
            gate = Gate(name, metric.leaks == "high", metric.bound)
            found[metric.of] = by_worst(gate, measured)
        elif metric.margin is not None and not known_blindly(name, measured):
            found[metric.of] = by_rate(name, metric.margin, measured)
    return list(found.values())


def known_blindly(name: str, rows: Sequence[Row]) -> bool:
    """Whether a blind guess is always right, as about the owner where there is one client."""
    guesses = [number_in(row, name + BLIND) for row in rows]
    return all(guess is not None and guess > 0.5 for guess in guesses)


def by_gate(gate: Gate, rows: Sequence[Row]) -> Outcome:
    """A bound on values judges each sample; one on hits is the share that may be right.

    One lucky guess is no leak, so that hits are judged by their share.
    """
    measured = gate.measured(rows)
    if METRICS.build(gate.metric).margin is None or not gate.above or not measured:
        return by_worst(gate, rows)
    return by_rate(gate.metric, 0.0, measured, gate.bound)


def by_worst(gate: Gate, rows: Iterable[Row]) -> Outcome:
    """Leaks when the worst score of any victim lies beyond the gate and beats a blind guess."""
    metric = METRICS.build(gate.metric)
    rows = gate.measured(rows)
    worst: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = victim_of(row)
        worst[key] = gate.worst([row, worst[key]] if key in worst else [row]) or row
    hit = [row for row in worst.values() if leaked(row, gate)]
    shown = gate.worst(hit) or gate.worst(worst.values())
    nodes = {str(row.get("node", "")) for row in hit}
    unit: Unit = "sample" if all(map(alone, rows)) else "client"
    about: dict[str, Any] = {
        "claim": metric.of,
        "metric": gate.metric,
        "bound": gate.bound,
        "victims": len(worst),
        "clients": len({node for node, _ in worst}),
        "hits": len(hit),
        "limit": SHARE,
        "unit": unit,
    }
    if shown is None:
        why = f"no score has '{gate.metric}'"
        return Outcome(**about, word="undecided", low=0.0, high=1.0, why=why)
    taken, count = (
        (len(nodes), about["clients"]) if unit == "client" else (len(hit), about["victims"])
    )
    low, high = exact_interval(taken, count, LEVEL)
    about |= {
        "low": low,
        "high": high,
        "clients_hit": len(nodes),
        "clients_high": at_most(len(nodes), about["clients"], LEVEL),
        "worst": float(shown[gate.metric]),
        "blind": number_in(shown, gate.metric + BLIND),
        "attack": str(shown.get("attack", "")),
    }
    if hit:
        return Outcome(**about, word="leaks")
    needed = victims_for(SHARE, LEVEL)
    if count < needed:
        why = (
            f"{count} {unit}s without a hit bound the share by {at_most(0, count):.0%} only; "
            f"{needed} are needed for {SHARE:.0%}"
        )
        return Outcome(**about, word="undecided", why=why)
    if why := attacked_badly(gate, rows):
        return Outcome(**about, word="undecided", why=why)
    return Outcome(**about, word="holds")


def attacked_badly(gate: Gate, rows: Iterable[Row]) -> str:
    """Why no attack did as well as a blind guess; nothing where one did, or nobody guessed.

    An attack is worse when the mean difference over its scores is below 0 beyond chance (a
    one-sided bound of 95 %, by the normal distribution).
    """
    gained = gains_of(gate.metric, gate.above, rows)
    if not gained or any(at_best(gains) >= 0 for gains in gained.values()):
        return ""
    name, gains = max(gained.items(), key=lambda one: sum(one[1]) / len(one[1]))
    lost = METRICS.build(gate.metric).shown(abs(sum(gains) / len(gains)))
    return f"{BADLY}: the best attack, {name}, is {lost} worse than a blind guess on average"


def gains_of(name: str, above: bool, rows: Iterable[Row]) -> dict[str, list[float]]:
    """How much better than the blind guess each attack's scores are, sample by sample."""
    found: dict[str, list[float]] = {}
    for row in rows:
        value, blind = number_in(row, name), number_in(row, name + BLIND)
        if value is not None and blind is not None:
            gain = value - blind if above else blind - value
            found.setdefault(str(row.get("attack", "")), []).append(gain)
    return found


def at_best(gains: Sequence[float]) -> float:
    """The upper bound of a mean."""
    return sum(gains) / len(gains) + Z * spread_of(gains) / math.sqrt(len(gains))


def spread_of(gains: Sequence[float]) -> float:
    """The standard deviation of a sample."""
    mean = sum(gains) / len(gains)
    return math.sqrt(sum((gain - mean) ** 2 for gain in gains) / max(1, len(gains) - 1))


def by_rate(name: str, margin: float, rows: Iterable[Row], least: float = 0.0) -> Outcome:
    """Leaks when an attack is right more often than a blind guess, by more than the margin.

    A share of `least` is allowed in any case.

    Attacks, rounds and batch sizes are judged apart: the best of several guesses would be right
    more often by chance alone. The level is shared among them (Bonferroni). An attack that is worse
    than a blind guess says nothing where another one is not.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = tuple(str(row.get(part, "")) for part in ("attack", "attribute", "round", "batch"))
        groups.setdefault(key, []).append(row)
    level = 1 - (1 - LEVEL) / max(1, len(groups))
    tried = [_rate(name, margin, group, level, least) for group in groups.values()]
    found = [one for one in tried if not one.why.startswith(BADLY)] or tried
    order: dict[Word, int] = {"leaks": 0, "undecided": 1, "holds": 2}
    return min(found, key=lambda one: (order[one.word], -(one.worst or 0.0)))


def _rate(name: str, margin: float, rows: Sequence[Row], level: float, least: float) -> Outcome:
    hits = sum(float(row[name]) > 0.5 for row in rows)
    guesses = [value for row in rows if (value := number_in(row, name + BLIND)) is not None]
    count, worth = len(rows), worth_of(name, rows)
    low, high = share_between(hits / count, worth, LEVEL)
    least_share, most_share = share_between(hits / count, worth, 2 * level - 1)  # of one side each
    about: dict[str, Any] = {
        "claim": METRICS.build(name).of,
        "metric": name,
        "bound": None,
        "victims": count,
        "clients": len({str(row["node"]) for row in rows}),
        "hits": hits,
        "low": low,
        "high": high,
        "worst": hits / count,
        "attack": str(rows[0].get("attack", "")),
        "unit": "sample",
    }
    if not guesses:
        why = "there is no blind guess to compare it with"
        return Outcome(**about, word="undecided", limit=margin, why=why)
    blind = sum(guesses) / len(guesses)
    limit = min(1.0, max(least, blind + margin))
    about |= {"blind": blind, "limit": limit}
    if least_share > limit:
        return Outcome(**about, word="leaks")
    if most_share < blind:
        why = f"{BADLY}: {hits} of {count} right, a blind guess {blind:.0%}"
        return Outcome(**about, word="undecided", why=why)
    if most_share <= limit:
        return Outcome(**about, word="holds")
    why = (
        f"{hits} of {count} right says between {low:.0%} and {high:.0%}; a blind guess is right "
        f"for {blind:.0%}, and {limit:.0%} are allowed"
    )
    return Outcome(**about, word="undecided", why=why)


def worth_of(name: str, rows: Sequence[Row]) -> float:
    """How many independent samples scores are worth; those behind one update may go together.

    Attacks on all rounds of a training, and on codes, judge single samples of all clients.
    """
    if all(alone(row) or row.get("claim") in WHOLE for row in rows):
        return float(len(rows))
    sizes: dict[str, int] = {}
    hits: dict[str, int] = {}
    for row in rows:
        node = str(row.get("node", ""))
        sizes[node] = sizes.get(node, 0) + 1
        hits[node] = hits.get(node, 0) + (float(row[name]) > 0.5)
    return independent([hits[node] for node in sizes], list(sizes.values()))


def alone(row: Row) -> bool:
    """Whether a score is of a code, which is read by itself, and not of an update."""
    return row.get("by") == "curious party"


def leaked(row: Row, gate: Gate) -> bool:
    """Whether a score lies beyond the gate, and beyond what a blind guess has."""
    value, blind = float(row[gate.metric]), number_in(row, gate.metric + BLIND)
    better = blind is None or (value > blind if gate.above else value < blind)
    return gate.crossed(value) and better


def victim_of(row: Row) -> tuple[str, str]:
    """A sample of a client."""
    return str(row.get("node", "")), str(row.get("victim", ""))


def overall(found: Sequence[Outcome], doubts: Sequence[str] = ()) -> Word:
    """A leak decides whatever else is missing; only what was all tested holds."""
    words = {one.word for one in found}
    if "leaks" in words:
        return "leaks"
    return "holds" if words == {"holds"} and not doubts else "undecided"


def number_in(row: Row, name: str) -> float | None:
    """A value of a score that is there and is a number."""
    value = row.get(name)
    if value is None or value == "":
        return None
    found = float(value)
    return None if math.isnan(found) else found
