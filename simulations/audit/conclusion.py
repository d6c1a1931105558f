"""The conclusion of an audit: its verdict with what stands behind it, as plain tables."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fedpriv.catalogue import METRICS
from fedpriv.metrics.rates import LEVEL
from fedpriv.simulations.audit.ladder import Price, Tried, cheapest, largest_epsilon
from fedpriv.simulations.judging.outcome import Outcome, Word


def sentence(word: Word, found: Sequence[Outcome], doubts: Sequence[str]) -> str:
    """The verdict with its bound, its confidence and its victims; a sentence for each leak."""
    if word == "leaks":
        said = [leak(one) for one in found if one.word == "leaks"]
        return "Leaks: " + " ".join(f"{text[0].upper()}{text[1:]}." for text in said)
    if word == "holds":
        return "Holds: " + "; ".join(bound(one) for one in found) + "."
    reasons = [*doubts, *(one.why for one in found if one.word == "undecided")]
    shown = "; ".join(reasons[:3]) or "nothing was scored"
    more = f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    return f"Undecided: no leak was found, but {shown}{more}."


def leak(one: Outcome) -> str:
    """What leaked, of how many, beside a blind guess."""
    metric, value = METRICS.build(one.metric), one.worst
    whom = f"{one.victims} samples of {one.clients} clients"
    interval = f"95 % interval {one.low:.0%} to {one.high:.0%}"
    if one.bound is not None and one.unit == "client" and one.victims > one.clients:
        interval = f"{one.clients_hit} clients have one, {interval}"
    if one.claim in ("member", "classes") and one.why:  # of a training as a whole
        return f"the attack {one.why}"
    if one.bound is None:
        return (
            f"the attack {one.attack} is right about the {one.claim} of {one.hits} of {whom} "
            f"({interval}), a blind guess about {one.blind or 0:.0%}"
        )
    side = "above" if metric.leaks == "high" else "below"
    blind = f", a blind guess with {metric.shown(one.blind)}" if one.blind is not None else ""
    name = metric.said or one.metric
    return (
        f"{one.hits} of {whom} come out {side} {metric.shown(one.bound)} {name} ({interval}), the "
        f"worst by {one.attack} with {metric.shown(value)}{blind}"
    )


def bound(one: Outcome) -> str:
    """What holds, with its confidence."""
    if one.claim in ("member", "classes") and one.why:  # of a training as a whole
        return one.why
    metric = METRICS.build(one.metric)
    whom = f"{LEVEL:.0%} confidence, from {one.victims} samples of {one.clients} clients"
    if one.bound is None:
        return (
            f"the {one.claim} of at most {one.high:.0%} of samples can be read ({whom}); a blind "
            f"guess is right about {one.blind or 0:.0%}"
        )
    side = "above" if metric.leaks == "high" else "below"
    blind = f"; a blind guess has {metric.shown(one.blind)}" if one.blind is not None else ""
    what = "clients have a sample that" if one.unit == "client" else "samples"
    return (
        f"at most {one.at_most:.0%} of {what} can be drawn {side} "
        f"{metric.shown(one.bound)} {metric.said or one.metric} ({whom}); the worst has "
        f"{metric.shown(one.worst)}{blind}"
    )


def told_more(held: Sequence[Outcome], again: bool = False) -> str:
    """By whom kinds of claim were judged that not even a better informed server can make.

    With `again` a sample may come in several steps, as under dp.
    """
    if not held:
        return ""
    text = (
        f" About the {' and the '.join(sorted({one.claim for one in held}))} a server was asked "
        "that is also told each client's model after its first step, and so knows more than the "
        "real one. The samples are those of that step, which clients draw at random: one batch of "
        "each client in each of these rounds."
    )
    if again:
        text += (
            " Under dp a sample may come again in a later step. What several steps say of one "
            "sample together was not tested; ε counts it."
        )
    hits = sum(one.hits for one in held if one.bound is not None)
    if hits:
        text += f" It draws {hits} of them, so that the bound is larger than without a hit."
    return text


def saved_steps(trials: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Which attacks took fewer steps than they have; what planted samples say is in `trials`."""
    taken: dict[str, tuple[set[int], int]] = {}
    for attacks in trials.values():
        for attack, one in attacks.items():
            if one["steps"] < one["all-steps"]:
                taken.setdefault(attack, (set(), one["all-steps"]))[0].add(one["steps"])
    cut = [f"{name} to {_from_to(some)} of {all_} steps" for name, (some, all_) in taken.items()]
    said = " Attacks were shortened where planted samples lose nothing by it: "
    return f"{said}{', '.join(cut)}." if cut else ""


def _from_to(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"between {low} and {high}"


def besides(found: Sequence[Outcome]) -> str:
    """What leaks that no gate asks about."""
    leaks = [one for one in found if one.word == "leaks"]
    if not leaks:
        return ""
    return " No gate asks about it: " + "; ".join(leak(one) for one in leaks) + "."


def advice(tried: Sequence[Tried], plain: float | None, cell: str) -> str:
    """The cheapest defence that was shown to hold, or that none was."""
    if not tried:
        return ""
    best = cheapest(tried)
    if best is None:
        undecided = [one.name for one in tried if one.word == "undecided"]
        more = f" Not decided: {', '.join(undecided)}." if undecided else ""
        return (
            f"None of the {len(tried)} defences that were tried was shown to hold in {cell}.{more}"
        )
    text = f"The cheapest defence that holds in {cell} is {best.settings}"
    if best.price.mean is None or plain is None:
        text += "; what it costs was not measured"
    else:
        seeds = len(best.price.accuracy)
        text += (
            f": {best.price.mean:.1%} accuracy instead of {plain:.1%} "
            f"({seeds} seed{'s' if seeds > 1 else ''}{interval(best.price)})"
        )
        if best.price.seconds is not None:
            text += f", {best.price.seconds:.1f} × the computing time"
        if best.price.bytes is not None:
            text += f", {best.price.bytes:.1f} × the bytes"
    most = largest_epsilon(tried)
    return text + (f". The largest ε that holds is {most:g}." if most is not None else ".")


def without_time(untried: Sequence[str]) -> str:
    """What is said of defences where the time ended before any was tried."""
    if not untried:
        return ""
    return (
        f"No defence was tried: the time ended before. {len(untried)} wait for their turn: "
        f"{', '.join(untried)}."
    )


def without_need(word: Word, asked: bool) -> str:
    """What is said of defences where no leak was found that one could be tried on.

    `asked` says whether it was tested what a server could ask for.
    """
    if word == "leaks" or asked:
        return "" if word == "leaks" else "No defence was tried: no leak was found to try one on."
    return (
        "No defence was tried: no leak was found in the rounds as configured, and the time ended "
        "before it was tested what a server could ask for."
    )


def interval(price: Price) -> str:
    """The interval of an accuracy, in words."""
    if price.low is None or price.high is None:
        return ""
    return f", 95 % interval {price.low:.1%} to {price.high:.1%}"


def next_step(
    word: Word, best: Tried | None, named: str, minutes: int, folder: str
) -> dict[str, str]:
    """What to do after an audit, and the command for it."""
    if word == "undecided":
        what = "Give the audit the time that its battery takes; it goes on where it ended:"
        more = ["--minutes", str(minutes), "--resume", "--out", folder]
        return {"what": what, "command": command(named, *more)}
    if word == "holds":
        what = "Print it and sign it. Audit again when settings, model or data change:"
        return {"what": what, "command": shlex.join(["fedpriv", "report", folder, "--pdf"])}
    if best is None:
        what = "No defence was shown to hold. Give the audit more time for them:"
        more = ["--minutes", str(minutes), "--resume", "--out", folder]
        return {"what": what, "command": command(named, *more)}
    what = f"Take {best.settings}, and audit the federation with it:"
    sets = [part for one in best.sets for part in ("--set", one)]
    return {"what": what, "command": command(named, *sets)}


def command(named: str, *more: str) -> str:
    """An audit as people type it."""
    return f"fedpriv audit {named} {shlex.join(more)}"


def possible(found: Sequence[Outcome], word: Word, terms: str = "") -> str:
    """What a server could make clients do that sets the configuration.

    `terms` says which terms of clients stop that.
    """
    if word == "leaks":
        said = "; ".join(leak(one) for one in found if one.word == "leaks")
        return (
            f"A server that sets the configuration can ask for more: with one step on 1, 4 or 8 "
            f"samples, {said}.{terms or ' Terms of clients can forbid such rounds.'}"
        )
    if word == "holds":
        return "One step on 1, 4 or 8 samples, which a server could ask for, leaks no more."
    return "What a server could make clients do (one step on a few samples) was not decided."


def malicious(found: Sequence[Outcome], word: Word, turned_away: Sequence[str]) -> str:
    """What servers read that change the model, and whom clients turned away."""
    refused = f" No client answered {', '.join(turned_away)}." if turned_away else ""
    if word == "leaks":
        said = "; ".join(leak(one) for one in found if one.word == "leaks")
        return f"A server that changes the model reads more: {said}.{refused}"
    if word == "holds":
        return f"Servers that change the model read no more.{refused}"
    return f"What servers read that change the model was not decided.{refused}"


def counts(found: Sequence[Outcome]) -> dict[str, Any]:
    """Victims and clients behind the verdict."""
    return {
        "victims": max((one.victims for one in found), default=0),
        "clients": max((one.clients for one in found), default=0),
    }
