"""The answer at the top of a page: a traffic light and three sentences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedpriv.report.leakage import Measure, Summary, summary
from fedpriv.report.reading import Run
from fedpriv.tables import decisive

Light = Literal["red", "amber", "green", "grey"]
WORDS: dict[Light, str] = {
    "red": "Leaks",
    "amber": "Close to the bound",
    "green": "Holds",
    "grey": "Undecided",
}
OUTCOMES: dict[str, Light] = {"leaks": "red", "holds": "green", "undecided": "grey"}
WORST_FIRST: tuple[Light, ...] = ("red", "grey", "amber", "green")


@dataclass(frozen=True)
class Verdict:
    """For a reader who reads nothing else: what leaked, how it was defended, at what cost."""

    light: Light
    sentences: tuple[str, ...]

    @property
    def word(self) -> str:
        return WORDS[self.light]


def light_of(scores: pd.DataFrame, what: Measure | None) -> Light:
    """Red when a victim is worse than the bound, amber within a quarter of it, grey unmeasured."""
    numbers = summary(scores, what) if what is not None else None
    if what is None or numbers is None or what.bound is None:
        return "grey"
    if numbers.over:
        return "red"
    if cut_short(scores):
        return "grey"
    return "amber" if what.near(numbers.worst) else "green"


def worst_of(lights: Iterable[Light]) -> Light:
    """The light of several gates: a leak first, then what is undecided."""
    return min(lights, key=WORST_FIRST.index, default="grey")


def worst_measure(scores: pd.DataFrame, whats: Sequence[Measure]) -> Measure | None:
    """The measure to show: of those that were measured the first with the worst light."""
    measured = [what for what in whats if what.measured(scores)]
    lights = [light_of(scores, what) for what in measured]
    return measured[lights.index(worst_of(lights))] if measured else None


def cut_short(scores: pd.DataFrame) -> bool:
    """Whether an attack was told to stop before it had finished."""
    return "partial" in scores and bool(scores["partial"].astype(str).eq("True").any())


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
    light = worst_of([*lights, "grey"] if doubts else lights)
    return Verdict(light, (leak, _attackers(runs, judged, what), _cost(runs)))


def verdict_of_audit(run: Run) -> Verdict:
    """What an audit found, in its own words: its verdict, what a server could do, what to do."""
    found = run.audit
    light = OUTCOMES[found["outcome"]]
    said = (found["sentence"], found["possible"]["sentence"], found["advice"])
    return Verdict(light, tuple(text for text in said if text))


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
    return (
        f"{_who(scores)} got {numbers.over} of {numbers.victims} samples "
        f"{side} {what.shown(what.bound)} (95 % interval "
        f"{numbers.share_low:.0%} to {numbers.share_high:.0%}); {reached}"
        f"{_beside_blind(numbers, what)}."
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


def _reached(run: Run) -> str:
    done, wanted = len(run.rounds), run.scenario.federation.rounds
    rounds = f"{done} of {wanted} rounds" if done != wanted else f"{done} rounds"
    rounds = "one round" if done == wanted == 1 else rounds
    return f"The federation reached {run.accuracy:.1%} accuracy in {rounds}"


def _is_plain(run: Run, defended: Run) -> bool:
    """Whether a run is the same federation without a defence."""
    ours, theirs = run.scenario, defended.scenario
    return not ours.plugins and all(
        getattr(ours, part) == getattr(theirs, part)
        for part in ("data", "model", "training", "federation", "representation")
    )


def _cost(runs: list[Run]) -> str:
    """Accuracy, bytes and seconds against the undefended run, when one is shown."""
    trained = [run for run in runs if run.accuracy is not None]
    if not trained:
        return "No round has ended yet."
    defended = [run for run in trained if run.scenario.plugins]
    if not defended:
        best = max(trained, key=lambda run: run.accuracy or 0)
        return f"{_reached(best)}."
    best = max(defended, key=lambda run: run.accuracy or 0)
    plain = next((run for run in trained if _is_plain(run, best)), None)
    if plain is None:
        return (
            f"{_reached(best)}; what the defence cost is not known, because the same without a "
            "defence is not on this page."
        )
    points = 100 * ((best.accuracy or 0) - (plain.accuracy or 0))
    change = "cost" if points < 0 else "gained"
    text = f"{best.name} {change} {abs(points):.1f} points of accuracy"
    for key, unit in (("seconds", "the time"), ("bytes-up", "the bytes")):
        before, after = plain.total(key), best.total(key)
        if before and after:
            text += f", {after / before:.2f} × {unit}"
    return f"Against no defence ({plain.accuracy:.1%}), {text}."
