"""The end of an audit: its verdict in `verdict.json`, and its page."""

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from fedpriv.metrics.gates import Gate
from fedpriv.report.page import write_report
from fedpriv.simulations.audit import doubts as doubting
from fedpriv.simulations.audit.cells import possible_cells
from fedpriv.simulations.audit.conclusion import (
    advice,
    besides,
    command,
    counts,
    malicious,
    next_step,
    possible,
    saved_steps,
    sentence,
    told_more,
    without_need,
    without_time,
)
from fedpriv.simulations.audit.coverage import Audited, Line, coverage
from fedpriv.simulations.audit.fairness import of_fairness
from fedpriv.simulations.audit.ladder import (
    cheapest,
    curve,
    largest_epsilon,
)
from fedpriv.simulations.audit.malicious import promised
from fedpriv.simulations.audit.own_terms import stopping
from fedpriv.simulations.audit.planted_series import of_controls
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.dp.card import written_card
from fedpriv.simulations.judging.deciding import answered, decided
from fedpriv.simulations.judging.outcome import Outcome, Word, overall
from fedpriv.strategies.catalogue import row_of
from fedpriv.tables import Row

SCHEMA = "fedpriv-verdict-1"


def concluded(work: Audit) -> dict[str, Any]:
    """The verdict, written down with its page."""
    rounds = work.folder.rounds()
    own = [attack.name for attack in work.means.own]
    guarded = promised(work.scenario)
    configured = [
        *work.own.rows,
        *work.between.rows,
        *work.series.rows,
        *(work.malicious.rows if guarded else ()),
    ]
    scored = [*configured, *work.own.told]
    reasons = [
        *(["the audit was interrupted"] if work.told.stopped else []),
        *doubting.of_training(work.scenario, rounds),
        *doubting.of_knowledge(work.scenario, own),
        *doubting.of_missing(work.own.missing),
        *doubting.of_scores(work.scenario, work.gates, scored, work.own.absent, own),
        *of_fairness(work.gates, work.own.rows, work.own.controls),
        *(doubts_about_series(work) if doubting.asks_series(work.gates) else ()),
        *(doubts_about(work.malicious, work) if guarded else ()),
    ]
    questions = answered(work.gates, configured, work.own.held)
    word = overall(questions, reasons)
    asked_of = {one.claim for one in questions}
    others = [one for one in decided((), configured) if one.claim not in asked_of]
    asked = decided(work.gates, work.possible.rows)
    accuracy = rounds[-1].get("accuracy") if rounds else None
    best, card = cheapest(work.tried), written_card(work.folder)
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome": word,
        "sentence": sentence(word, questions, reasons)
        + told_more(work.own.held, again=card is not None)
        + saved_steps(work.own.trials)
        + besides(others),
        "doubts": reasons,
        "questions": [one.plain() for one in questions],
        "besides": [one.plain() for one in others],
        **counts(questions),
        "possible": server_could(work, asked),
        "malicious": server_did(work),
        "coverage": [line.plain() for line in covered(work, configured)],
        "told": sorted({one.claim for one in work.own.held}),
        "trials": {**work.own.trials, **work.possible.trials},
        "races": {**work.own.races, **work.between.races, **work.possible.races},
        "gates": [str(gate) for gate in work.gates],
        "accuracy": accuracy,
        "rounds": {"trained": work.rounds, "wanted": work.scenario.federation.rounds},
        "defences": [one.plain() for one in work.tried],
        "untried": work.untried,
        "defended-cell": work.where,
        "cheapest": best.name if best else None,
        "largest-epsilon": largest_epsilon(work.tried),
        "epsilon-curve": curve(work.tried),
        "advice": advice(work.tried, accuracy, work.where)
        or work.price_of_own
        or without_time(work.untried)
        or (without_need(word, bool(work.possible.rows)) if sharing_updates(work) else ""),
        "next": next_step(word, best, work.named, minutes_for(work), str(work.folder.path)),
        "missing": [
            *work.own.missing,
            *work.between.missing,
            *work.series.missing,
            *work.possible.missing,
            *work.malicious.missing,
        ],
        "work": {
            "units": work.units,
            "full": work.full,
            "unit-seconds": None if work.rate is None else work.rate.seconds,
            "workers": work.workers,
        },
        "minutes": {
            "given": work.clock.minutes,
            "used": round((time.time() - work.clock.started) / 60, 2),
        },
        "interrupted": work.told.stopped,
        "dp-card": card,
        "folder": str(work.folder.path),
    }
    work.folder.write_gates(found["gates"])
    work.folder.write_findings(work.findings)
    work.folder.write_verdict(found)
    found["report"] = str(write_report([work.folder.path]))
    return found


def doubts_about_series(work: Audit) -> list[str]:
    """What is missing of attacks on all rounds, and who was never seen to work."""
    found = work.series
    return [*doubting.of_missing(found.missing), *of_controls(found.rows, found.controls)]


def sharing_updates(work: Audit) -> bool:
    """Whether clients share updates, which is what defences are tried on."""
    return row_of(work.scenario).reply == "update"


def covered(work: Audit, configured: list[Row]) -> list[Line]:
    """What was tested, and what was not."""
    stages = (work.own, work.series, work.malicious)
    cut = {str(one["attack"]): str(one["why"]) for found in stages for one in found.missing}
    rows = [*configured, *work.possible.rows, *work.malicious.rows]
    tested = Audited(
        [*rows, *work.own.told],
        refused_in(work),
        work.own.absent,
        cut,
        {one.claim for one in work.own.held},
        leaks_in(work.gates, rows),
    )
    own = [attack.name for attack in work.means.own]
    return coverage(work.scenario, tested, own, work.named, longer(work))


def leaks_in(gates: Sequence[Gate], rows: Iterable[Row]) -> set[tuple[str, str]]:
    """The attacks that found a leak by themselves, each with its kind of claim.

    A leak stays one, whatever else the attack had no time for.
    """
    own: dict[str, list[Row]] = {}
    for row in rows:
        own.setdefault(str(row.get("attack", "")).partition(" ")[0], []).append(row)
    return {
        (name, one.claim)
        for name, scores in own.items()
        for one in decided(gates, scores)
        if one.word == "leaks"
    }


def longer(work: Audit) -> str:
    """The command that gives an audit the time that it needs."""
    more = ("--minutes", str(minutes_for(work)), "--resume", "--out", str(work.folder.path))
    return command(work.named, *more)


def refused_in(work: Audit) -> dict[str, str]:
    """Who said that it cannot act here, and why."""
    stages = (work.own, work.series, work.possible, work.malicious)
    return {name: why for found in stages for name, why in found.refused.items()}


def minutes_for(work: Audit) -> int:
    """How long the whole battery takes here; four times what was given where nobody knows."""
    given = work.clock.minutes or 10.0
    if work.rate is None or not work.full:
        return math.ceil(4 * given)
    seconds = work.full * work.rate.seconds / work.workers + work.training
    return max(math.ceil(1.2 * seconds / 60), math.ceil(2 * given))


def doubts_about(found: Found, work: Audit) -> list[str]:
    """What is missing or was attacked badly in a stage."""
    missing = [f"{one['cell']}: {one['attack']}: {one['why']}" for one in found.missing]
    return [*missing, *of_fairness(work.gates, found.rows, found.controls)]


def server_did(work: Audit) -> dict[str, Any]:
    """The separate table of what malicious servers read, and whom clients turned away."""
    found = work.malicious
    asked = decided(work.gates, found.rows)
    word: Word = overall(asked, doubts_about(found, work))
    if found.turned_away and not found.rows and not found.missing:
        word = "holds"
    behind = work.guarded
    return {
        "outcome": word,
        "sentence": malicious(asked, word, list(found.turned_away)),
        "questions": [one.plain() for one in asked],
        "turned-away": found.turned_away,
        "guarded": None
        if behind is None
        else {
            "turned-away": behind.turned_away,
            "questions": [one.plain() for one in decided(work.gates, behind.rows)],
        },
    }


def server_could(work: Audit, asked: list[Outcome]) -> dict[str, Any]:
    """The separate table of what a server could make clients do."""
    word: Word = overall(asked, doubts_about(work.possible, work))
    cells = possible_cells(work.scenario, (1,))
    terms = stopping(work.scenario, cells, work.own.held)
    return {
        "outcome": word,
        "sentence": possible(asked, word, terms) if work.possible.attacks else "",
        "questions": [one.plain() for one in asked],
    }
