"""The answer at the top of a page: a light and a few sentences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fedpriv.metrics.rates import SHARE, at_most, victims_for
from fedpriv.report.kinds import kinds_in
from fedpriv.report.leakage import Measure, Summary, summary
from fedpriv.report.lights import (
    OUTCOMES,
    WORDS,
    WORST_FIRST,
    Light,
    cut_short,
    light_of,
    too_few,
    worst_of,
)
from fedpriv.report.reading import Run
from fedpriv.tables import decisive

LINES = 5  # federations of one page that its verdict names


@dataclass(frozen=True)
class Verdict:
    """For a reader who reads nothing else: what leaked, how it was defended, at what cost."""

    light: Light
    sentences: tuple[str, ...]

    @property
    def word(self) -> str:
        return WORDS[self.light]


def worst_measure(scores: pd.DataFrame, whats: Sequence[Measure]) -> Measure | None:
    """The measure to show: of those that were measured the first with the worst light."""
    measured = [what for what in whats if what.measured(scores)]
    lights = [light_of(scores, what) for what in measured]
    return measured[lights.index(worst_of(lights))] if measured else None


def verdict_of_runs(runs: list[Run], scores: pd.DataFrame, whats: Sequence[Measure]) -> Verdict:
    """`scores` are those of all runs, with the run's name in `run`; `whats` decide, all of them.

    Defended runs are judged when there are some: the others are there for comparison. Whatever
    failed or was cut short, and a gate that nobody measured, leaves an answer other than a leak
    undecided.
    """
    if len(runs) == 1 and "outcome" in runs[0].audit:
        return verdict_of_audit(runs[0])
    scores = decisive(scores)
    names = [run.name for run in runs if run.scenario.plugins]
    if not names and not all(_same_federation(run, runs[0]) for run in runs):
        return verdict_of_several(runs, scores, whats)
    defended = scores["run"].isin(names) if "run" in scores else pd.Series(dtype=bool)
    judged, others = (scores[defended], scores[~defended]) if defended.any() else (scores, None)
    what = worst_measure(judged, whats)
    if what is None:
        return Verdict("grey", (_untested(runs), _defences(runs), _cost(runs)))
    lights = [light_of(judged, one) for one in whats]
    asked = [run for run in runs if run.name in names] if defended.any() else runs
    doubts = [text for run in asked for text in run.doubts]
    if cut_short(judged):
        doubts.append("Some attacks were cut short.")
    leak = _leak(judged, what, len(runs) > 1) + _by_gate(whats, lights)
    if doubts:
        leak += f" {' '.join(doubts)} What they did not find decides nothing."
    if others is not None and (plain := summary(others, what)):
        leak += f" Without a defence the worst was {what.shown(plain.worst)}."
        if not plain.over:  # attackers who fail on bare clients have not tried the defence
            doubts.append("weak attacks")
            leak += " These attacks fail there too, so that they decide nothing about a defence."
    light = worst_of([*lights, "grey"] if doubts else lights)
    return Verdict(light, (leak, _attackers(runs, judged, what), _cost(runs)))


def verdict_of_several(runs: list[Run], scores: pd.DataFrame, whats: Sequence[Measure]) -> Verdict:
    """A sentence for each federation, the worst first: what one leaks says nothing of another."""
    found = [(run, _own_verdict(run, scores, whats)) for run in runs]
    light = worst_of(one.light for _, one in found)
    found.sort(key=lambda pair: WORST_FIRST.index(pair[1].light))
    lines = [f"{run.name}: {' '.join(one.sentences)}" for run, one in found]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"And {len(lines) - LINES + 1} more, in the table below."]
    return Verdict(light, tuple(lines))


def _own_verdict(run: Run, scores: pd.DataFrame, whats: Sequence[Measure]) -> Verdict:
    """What one federation of several leaked, and how well it learned, in two sentences."""
    own = scores[scores["run"] == run.name] if "run" in scores else scores
    what = worst_measure(own, whats)
    learned = f"{_reached(run)}." if run.accuracy is not None else "No round has ended yet."
    if what is None:
        kinds = list(kinds_in(own))
        said = "; ".join(f"{kind.claim}: {kind.figures} ({kind.beside})" for kind in kinds)
        light = worst_of([*(kind.light for kind in kinds), *(("grey",) if run.doubts else ())])
        return Verdict(light, (f"{said or 'nothing was attacked here'}.", *run.doubts, learned))
    lights = [light_of(own, one) for one in whats]
    light = worst_of([*lights, "grey"] if run.doubts else lights)
    return Verdict(light, (_leak(own, what, False), *run.doubts, learned))


def verdict_of_audit(run: Run) -> Verdict:
    """What an audit found, in its own words: its verdict, what a server could do, what to do."""
    found = run.audit
    light = OUTCOMES[found["outcome"]]
    sentence = str(found["sentence"]).removeprefix(f"{WORDS[light]}: ")
    said = (capital(sentence), *beyond(found), found["advice"])
    return Verdict(light, tuple(text for text in said if text))


def beyond(audit: Mapping[str, Any]) -> list[str]:
    """What servers can do that set the configuration or change the model; leaks come first."""
    asked = [audit[part] for part in ("possible", "malicious") if part in audit]
    return [one["sentence"] for one in sorted(asked, key=lambda one: one["outcome"] != "leaks")]


def capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _by_gate(whats: Sequence[Measure], lights: Sequence[Light]) -> str:
    """What each gate says, where there are several."""
    if len(whats) < 2:
        return ""
    said = [
        f"{_limit(what)}: {WORDS[one].lower()}" for what, one in zip(whats, lights, strict=True)
    ]
    return f" Gate by gate: {'; '.join(said)}."


def _limit(what: Measure) -> str:
    return f"{what.word} {'above' if what.high else 'below'} {what.shown(what.bound)}"


def _untested(runs: list[Run]) -> str:
    if any(run.scenario.attacks for run in runs):
        return "No attack has been scored yet, so this page cannot say what leaks."
    return (
        "No attack was run, so this page cannot say what leaks; "
        "`fedpriv audit` attacks a scenario with a standard battery."
    )


def _leak(scores: pd.DataFrame, what: Measure, several: bool) -> str:
    numbers = summary(scores, what)
    assert numbers is not None  # a Measure is only made of a column that holds numbers
    worst = what.worst_first(scores).iloc[0]
    where = f"client {worst['node']} in round {worst['round']}"
    if several:
        where += f" of {worst['run']}"
    reached = (
        f"the worst, from {where}, reached {what.shown(numbers.worst)} {what.word} "
        f"with the attack {worst['attack']}"
    )
    if what.bound is None:
        return f"There are {numbers.count} {_what(what)} of {numbers.victims} samples; {reached}."
    side = "above" if what.high else "below"
    interval = f" (95 % interval {numbers.share_low:.0%} to {numbers.share_high:.0%})"
    return (
        f"{_who(scores)} got {numbers.over} of {numbers.victims} samples "
        f"{side} {what.shown(what.bound)}{interval if numbers.over else ''}; {reached}"
        f"{_beside_blind(numbers, what)}.{_bounded(numbers)}"
    )


def _bounded(numbers: Summary) -> str:
    """What no hit says about all clients or samples; nothing where there is a hit."""
    if numbers.over:
        return ""
    share = at_most(0, numbers.units)
    whose = "samples can" if numbers.unit == "sample" else "clients can have one that does"
    most = f" So at most {share:.0%} of all {whose} (95 % confidence)"
    if not too_few(numbers.units):
        return f"{most}."
    return (
        f"{most}: too few were attacked. {victims_for(SHARE)} without a hit are needed for "
        f"{SHARE:.0%}."
    )


def _beside_blind(numbers: Summary, what: Measure) -> str:
    return "" if math.isnan(numbers.blind) else f" (a blind guess: {what.shown(numbers.blind)})"


def _who(scores: pd.DataFrame) -> str:
    """Who attacked, as a sentence begins."""
    names = [name for name in dict.fromkeys(scores.get("by", ())) if name]
    return f"A {' and a '.join(names)}" if names else "A curious server"


def _what(what: Measure) -> str:
    return "reconstructions" if what.metric.of == "sample" else "claims"


def _defences(runs: list[Run]) -> str:
    names = sorted({run.defence for run in runs if run.scenario.plugins})
    if not names:
        return "Clients had no defence."
    return f"Clients defended themselves with {', '.join(names)}."


def _attackers(runs: list[Run], scores: pd.DataFrame, what: Measure) -> str:
    text = _defences(runs)
    if "knows" not in scores.columns or not any(run.scenario.plugins for run in runs):
        return text
    informed = scores["knows"] != ""
    known, unknown = summary(scores[informed], what), summary(scores[~informed], what)
    if known is None:
        return f"{text} No attacker who knows the defence was tried."
    if unknown is None:
        return f"{text} Only attackers who know it were tried."
    return (
        f"{text[:-1]}; an attacker who knows the defence got {what.shown(known.worst)} at best, "
        f"one who does not {what.shown(unknown.worst)}."
    )


def _reached(run: Run, who: str = "The federation") -> str:
    done, wanted = len(run.rounds), run.scenario.federation.rounds
    rounds = f"{done} of {wanted} rounds" if done != wanted else f"{done} rounds"
    rounds = "one round" if done == wanted == 1 else rounds
    return f"{who} reached {run.accuracy:.1%} accuracy in {rounds}"


def _is_plain(run: Run, defended: Run) -> bool:
    """Whether a run is the same federation without a defence."""
    return not run.scenario.plugins and _same_federation(run, defended)


def _same_federation(one: Run, other: Run) -> bool:
    """Whether two runs differ in their defence and attacks alone."""
    return all(
        getattr(one.scenario, part) == getattr(other.scenario, part)
        for part in ("data", "model", "training", "federation", "representation")
    )


def _cost(runs: list[Run]) -> str:
    """Accuracy, bytes and seconds against the undefended run, when one is shown."""
    trained = [run for run in runs if run.accuracy is not None]
    if not trained:
        return "No round has ended yet."
    defended = [run for run in trained if run.scenario.plugins]
    best = max(defended or trained, key=lambda run: run.accuracy or 0)
    who = best.name if len(runs) > 1 else "The federation"
    if not defended:
        return f"{_reached(best, who)}."
    plain = next((run for run in trained if _is_plain(run, best)), None)
    if plain is None:
        return (
            f"{_reached(best, who)}; what the defence cost is not known, because the same without "
            "a defence is not on this page."
        )
    points = 100 * ((best.accuracy or 0) - (plain.accuracy or 0))
    change = "cost" if points < 0 else "gained"
    text = f"{best.name} {change} {abs(points):.1f} points of accuracy"
    for key, unit in (("seconds", "the time"), ("bytes-up", "the bytes")):
        before, after = plain.total(key), best.total(key)
        if before and after:
            text += f", {after / before:.2f} × {unit}"
    return f"Against no defence ({plain.accuracy:.1%}), {text}."
