"""What was found by kind of claim: a card each for samples, labels, attributes, owners, members."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedpriv.catalogue import METRICS
from fedpriv.metrics.membership import USUAL, chance_found
from fedpriv.metrics.rates import LEVEL, at_least, at_most
from fedpriv.report.leakage import Measure, measures, summary
from fedpriv.report.lights import OUTCOMES, WORDS, WORST_FIRST, Light, light_of
from fedpriv.report.reading import Run
from fedpriv.tables import decisive


@dataclass(frozen=True)
class Kind:
    """One kind of claim: its light and word, how many samples were hit, and a blind guess."""

    claim: str
    light: Light
    word: str
    figures: str
    beside: str = ""


def kinds_of_audit(found: Mapping[str, Any]) -> list[Kind]:
    """The kinds that an audit judged, then those that nobody tested here.

    A kind that holds by its scores is undecided where the audit doubts them.
    """
    judged = [
        _of_question(one, word_of(one, found["doubts"]), one["claim"] in found.get("told", ()))
        for one in (*found["questions"], *found.get("besides", ()))
    ]
    known = {one.claim for one in judged}
    states: dict[str, set[str]] = {}
    for line in found["coverage"]:
        states.setdefault(line["claim"], set()).add(line["state"])
    others = [
        Kind(claim, "grey", "Tested" if "tested" in found else "Not tested", _why(found))
        for claim, found in states.items()
        if claim not in known and found != {"does not apply"}
    ]
    return in_order([*judged, *others])


def word_of(one: Mapping[str, Any], doubts: Sequence[str]) -> str:
    """The word of a question: one that holds by its scores is undecided where it is doubted."""
    doubted = one["word"] == "holds" and doubts_about(one["claim"], doubts)
    return "undecided" if doubted else str(one["word"])


def doubts_about(claim: str, doubts: Sequence[str]) -> list[str]:
    """The doubts about one kind of claim: those that name it, and those that name no kind."""
    kinds = {METRICS.build(name).of for name in METRICS}
    named = [{kind for kind in kinds if f"the {kind} " in f"{doubt} "} for doubt in doubts]
    return [doubt for doubt, of in zip(doubts, named, strict=True) if not of or claim in of]


def in_order(kinds: Sequence[Kind]) -> list[Kind]:
    """As the catalogue of metrics has them: samples first."""
    known = list(dict.fromkeys(METRICS.build(name).of for name in METRICS))
    return sorted(kinds, key=lambda kind: known.index(kind.claim) if kind.claim in known else 99)


def _why(states: set[str]) -> str:
    return "no bound decides it; the figures are below" if "tested" in states else "see below"


def _of_question(one: Mapping[str, Any], word: str, told: bool = False) -> Kind:
    """With `told` a server was asked that knows more than the real one; its hits are a bound."""
    metric, light = METRICS.build(one["metric"]), OUTCOMES[word]
    if one["claim"] == "classes":  # an error, not a share of hits
        figures = f"mean error {one['worst']:.2f} of {one['clients']} clients"
        blind = "" if one["blind"] is None else f"a blind guess: {one['blind']:.2f}"
        return Kind(one["claim"], light, WORDS[light], figures, blind)
    if one["bound"] is None:
        figures = f"{one['hits']} of {one['victims']} right ({one['low']:.0%}–{one['high']:.0%})"
        blind = "" if one["blind"] is None else f"a blind guess: {one['blind']:.0%}"
        return Kind(one["claim"], light, WORDS[light], figures, blind)
    side = "above" if metric.leaks == "high" else "below"
    bound = f"{side} {metric.shown(one['bound'])} {metric.said or one['metric']}"
    whose = f"{one['clients_hit']} of {one['clients']} clients, " * (one["unit"] == "client")
    interval = f"{whose}{one['low']:.0%}–{one['high']:.0%}"
    figures = f"{one['hits']} of {one['victims']} {bound} ({interval})"
    by = f" by {one['attack']}" if one["attack"] else ""
    beside = f"worst {metric.shown(one['worst'])}{by}, blind {metric.shown(one['blind'])}"
    if told and word != "leaks":
        beside += "; all by a server that is told more than the real one"
    return Kind(one["claim"], light, WORDS[light], figures, beside)


def kinds_of_runs(runs: Sequence[Run]) -> list[Kind]:
    """The worst run of each kind of claim that was scored."""
    found: dict[str, Kind] = {}
    for run in runs:
        named = f"{run.name}: " if len(runs) > 1 else ""
        for kind in kinds_in(decisive(run.scores), run.gates, named):
            known = found.get(kind.claim)
            if known is None or _order(kind) < _order(known):
                found[kind.claim] = kind
    return in_order(list(found.values()))


def _order(kind: Kind) -> int:
    return WORST_FIRST.index(kind.light)


def kinds_in(scores: pd.DataFrame, gates: Sequence[Any] = (), named: str = "") -> Iterator[Kind]:
    """A kind for the first metric of each that decides something."""
    seen: set[str] = set()
    for what in measures(scores, gates) if len(scores) else ():
        claim = what.metric.of
        if claim in seen:
            continue
        if what.bound is not None:
            kind = _of_values(scores, what, named)
        elif what.metric.margin is not None:
            kind = _of_hits(scores, what, what.metric.margin, named)
        elif claim == "member" and what.metric.leaks == "high":
            kind = _of_members(scores, what, named)
        else:
            continue
        seen.add(claim)
        yield kind


def _of_values(scores: pd.DataFrame, what: Measure, named: str) -> Kind:
    numbers = summary(scores, what)
    assert numbers is not None  # `measures` gives only what was measured
    light = light_of(scores, what)
    side = "above" if what.high else "below"
    figures = f"{named}{numbers.over} of {numbers.victims} {side} {what.shown(what.bound)}"
    beside = f"worst {what.shown(numbers.worst)} {what.word}, blind {what.shown(numbers.blind)}"
    return Kind(what.metric.of, light, WORDS[light], figures, beside)


def _of_hits(scores: pd.DataFrame, what: Measure, margin: float, named: str) -> Kind:
    """By the attack that is right most often; the level is shared among the attacks."""
    best, level = _best(scores, what)
    hits, count = int((best[what.name] > 0.5).sum()), len(best)
    blind = float(best[what.blind].mean()) if what.blind in best else None
    light: Light = "grey"
    limit = 1.0 if blind is None else blind + margin
    if limit < 1:  # else a blind guess is right nearly always
        if at_least(hits, count, level) > limit:
            light = "red"
        elif at_most(hits, count, level) <= limit:
            light = "green"
    beside = "" if blind is None else f"a blind guess: {blind:.0%}"
    if what.metric.of == "owner" and set(best.get("claim", ())) == {"sample"}:
        beside = f"a sample's nearest drawing is of its own client's update; {beside}"
    figures = f"{named}{hits} of {count} {what.word}"
    return Kind(what.metric.of, light, WORDS[light], figures, beside)


def _of_members(scores: pd.DataFrame, what: Measure, named: str) -> Kind:
    """Leaks when scores without meaning would hardly find so many members at 1 % false alarms.

    Few hits are no proof that nobody can be found.
    """
    best, level = _best(scores, what)
    hits, count = int((best[what.name] > 0.5).sum()), len(best)
    others = int(best["others"].iloc[0]) if "others" in best else 0
    chance = chance_found(hits, count, others) if others else 1.0
    light: Light = "red" if chance < 1 - level else "grey"
    beside = f"a blind guess: {USUAL:.0%}; chance alone finds as many with probability {chance:.2g}"
    figures = f"{named}{hits} of {count} {what.word}"
    return Kind(what.metric.of, light, WORDS[light], figures, beside)


def _best(scores: pd.DataFrame, what: Measure) -> tuple[pd.DataFrame, float]:
    """The rows of the attack that is right most often, and the level that is each attack's."""
    known = scores[scores[what.name].notna()]
    groups = [rows for _, rows in known.groupby("attack", sort=False)]
    best = max(groups, key=lambda rows: float(rows[what.name].mean()))
    return best, 1 - (1 - LEVEL) / len(groups)
