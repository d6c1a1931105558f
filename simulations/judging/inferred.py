"""What scores decide about a training set as a whole: members, owners, class shares.

One exposed member says nothing: some held-out sample always scores lowest. So members and owners
are judged by their share, and class shares by their mean error, each beside the blind guess.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy

from fedpriv.catalogue import METRICS
from fedpriv.columns import BLIND
from fedpriv.metrics.membership import USUAL, Exposure, alarms_for, chance_found, exposure
from fedpriv.metrics.rates import LEVEL, at_least, at_most, exact_interval
from fedpriv.rng import seed_of
from fedpriv.simulations.judging.outcome import BADLY, Outcome, Word, by_rate
from fedpriv.tables import Row

FOUND, AREA = 0.05, 0.6  # members found at 1 % FPR, and AUC: what is still allowed
TAKEN = 0.5  # the part of the blind guess's error that may be taken away
KNOWN = 0.05  # an error of class shares: with less, a blind guess knows them and nothing is left
ORDER: dict[Word, int] = {"leaks": 0, "undecided": 1, "holds": 2}
EXACTLY = 14  # clients for which all exchanges of signs are counted; for more, some are drawn


def inferred(rows: Iterable[Row]) -> list[Outcome]:
    """An outcome for members, for owners and for class shares, of those that were scored."""
    known = list(rows)
    found: list[Outcome] = []
    for claim, judge in JUDGES.items():
        own = [row for row in known if row.get("claim") == claim]
        if own:
            found.append(judge(own))
    return found


def by_attack(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row.get("attack", "")), []).append(row)
    return list(groups.values())


def members(rows: Sequence[Row]) -> Outcome:
    """The attack that decides: a leak wins, then the most members found.

    The level is shared among the attacks (Bonferroni).
    """
    groups = by_attack(rows)
    level = 1 - (1 - LEVEL) / len(groups)
    tried = [_members(group, level) for group in groups]
    return min(tried, key=lambda one: (ORDER[one.word], -(one.worst or 0.0)))


def _members(rows: Sequence[Row], level: float) -> Outcome:
    others = int(rows[0]["others"])
    rates = [float(row["member-fpr"]) for row in rows]
    found = exposure(rates, [float(row["member-rank"]) for row in rows], others)
    hits, count = round(found.found * found.members), found.members
    about: dict[str, Any] = {
        "claim": "member",
        "metric": "member-hit",
        "bound": None,
        "victims": count,
        "clients": len({str(row["node"]) for row in rows}),
        "hits": hits,
        "low": found.found_low,
        "high": found.found_high,
        "limit": FOUND,
        "worst": found.found,
        "blind": USUAL,
        "attack": str(rows[0].get("attack", "")),
        "unit": "sample",
    }
    said = said_of_members(about["attack"], found, rows)
    wide = float(scipy.stats.norm.ppf(level)) * found.auc_error
    by_chance = chance_found(hits, count, others)
    surely = by_chance < 1 - level and at_least(hits, count, level) > FOUND
    if surely or found.auc - wide > AREA:
        return Outcome(**about, word="leaks", why=said)
    if others < 1 / USUAL:
        why = f"{others} held-out samples do not show a false-positive rate of {USUAL:.0%}"
        return Outcome(**about, word="undecided", why=why)
    if most_found(rates, others) <= FOUND and found.auc + wide <= AREA:
        return Outcome(**about, word="holds", why=said)
    why = f"{said}; allowed are {FOUND:.0%} and an AUC of {AREA}"
    return Outcome(**about, word="undecided", why=why)


def most_found(rates: Sequence[float], others: int) -> float:
    """At most this share of members is found at the usual rate of false positives.

    Both may err, the rate that few held-out samples show and the share of members: each has half of
    the level. One attack that finds more is enough for a wrong answer, so that all have the same.
    """
    level = (1 + LEVEL) / 2
    accused = (alarms_for(USUAL, others, level) + 0.5) / others  # rates are whole parts of these
    return at_most(sum(rate <= accused for rate in rates), len(rates), level)


def said_of_members(attack: str, found: Exposure, rows: Sequence[Row]) -> str:
    gap = rows[0].get("gap")
    fitted = f"; generalisation gap {float(gap):.1%}" if gap is not None and gap == gap else ""
    return (
        f"{attack} finds {found.found:.1%} of {found.members} members at {USUAL:.0%} false "
        f"positives ({found.found_low:.1%} to {found.found_high:.1%}; a blind guess {USUAL:.0%}), "
        f"AUC {found.auc:.2f}{fitted}"
    )


def owners(rows: Sequence[Row]) -> Outcome:
    """Whose a sample is: right more often than a blind guess, by more than the margin."""
    metric = METRICS.build("traced-hit")
    assert metric.margin is not None
    return by_rate("traced-hit", metric.margin, rows)


def classes(rows: Sequence[Row]) -> Outcome:
    """Class shares: the attack that decides, each client beside its own blind guess."""
    groups = by_attack(rows)
    level = 1 - (1 - LEVEL) / len(groups)
    tried = [_classes(group, level) for group in groups]
    found = [one for one in tried if not one.why.startswith(BADLY)] or tried
    return min(found, key=lambda one: (ORDER[one.word], one.worst or 0.0))


def _classes(rows: Sequence[Row], level: float, name: str = "class-share-error") -> Outcome:
    errors = np.array([float(row[name]) for row in rows])
    blind = np.array([float(row.get(name + BLIND, math.nan)) for row in rows])
    taken = int((errors <= (1 - TAKEN) * blind).sum())
    low, high = exact_interval(taken, len(rows))
    about: dict[str, Any] = {
        "claim": "classes",
        "metric": name,
        "bound": None,
        "victims": len(rows),
        "clients": len({str(row["node"]) for row in rows}),
        "hits": taken,
        "low": low,
        "high": high,
        "limit": TAKEN,
        "worst": float(errors.mean()),
        "blind": float(blind.mean()),
        "attack": str(rows[0].get("attack", "")),
    }
    if np.isnan(blind).any():
        why = "there is no blind guess of class shares to compare with"
        return Outcome(**about, word="undecided", why=why)
    gains = blind - errors
    said = (
        f"{about['attack']} tells the class shares of {len(rows)} clients with a mean error of "
        f"{errors.mean():.2f}; a blind guess has {blind.mean():.2f}"
    )
    if gains.mean() > TAKEN * blind.mean() and chance_gained(gains) < 1 - level:
        return Outcome(**about, word="leaks", why=said)
    if blind.max() <= KNOWN:
        why = (
            f"clients have the classes that everybody has: a blind guess of their shares has an "
            f"error of {blind.mean():.2f}, and nothing is left to tell"
        )
        return Outcome(**about, word="holds", why=why)
    if len(rows) < 5:
        why = f"{len(rows)} clients are too few to compare with a blind guess; 5 are needed"
        return Outcome(**about, word="undecided", why=why)
    spread = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    best = float(gains.mean()) + float(scipy.stats.norm.ppf(level)) * spread
    if best < 0:
        return Outcome(**about, word="undecided", why=f"{BADLY}: {said}")
    if best <= TAKEN * blind.mean():
        return Outcome(**about, word="holds", why=said)
    return Outcome(**about, word="undecided", why=said)


def beating(claim: str, rows: Sequence[Row]) -> set[str]:
    """The attacks that beat a blind guess beyond chance; the level is shared among them."""
    groups = by_attack(rows)
    level = 1 - (1 - LEVEL) / max(1, len(groups))
    return {str(own[0].get("attack", "")) for own in groups if _beats(claim, own, level)}


def _beats(claim: str, rows: Sequence[Row], level: float) -> bool:
    if claim == "member":
        fpr = [float(row["member-fpr"]) for row in rows]
        others = int(rows[0]["others"])
        found = exposure(fpr, [float(row["member-rank"]) for row in rows], others)
        return found.auc - float(scipy.stats.norm.ppf(level)) * found.auc_error > 0.5
    name = "traced-hit" if claim == "owner" else "class-share-error"
    values = np.array([float(row[name]) for row in rows])
    blind = np.array([float(row.get(name + BLIND, math.nan)) for row in rows])
    if claim == "owner":
        return at_least(int((values > 0.5).sum()), len(values), level) > float(blind.mean())
    return not bool(np.isnan(blind).any()) and chance_gained(blind - values) < 1 - level


def chance_gained(gains: np.ndarray, draws: int = 20_000) -> float:
    """The p-value of so large a mean gain, with the sign of each client's exchanged at random."""
    total = float(gains.sum())
    if len(gains) <= EXACTLY:
        signs = np.array(list(itertools.product((1, -1), repeat=len(gains))))
        return float((signs @ gains >= total - 1e-12).mean())
    stream = np.random.default_rng(seed_of(0, "signs"))
    signs = stream.choice((1, -1), size=(draws, len(gains)))
    return float((1 + (signs @ gains >= total - 1e-12).sum()) / (1 + draws))


JUDGES: dict[str, Callable[[Sequence[Row]], Outcome]] = {
    "member": members,
    "owner": owners,
    "classes": classes,
}
