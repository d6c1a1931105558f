"""The verdict on an app: the same words, file and page as for a scenario of ours."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedpriv.attacks.catalogue import ATTACKS
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import from_tables
from fedpriv.simulations.apps.attempts import Tried
from fedpriv.simulations.apps.further import command_of, deciding
from fedpriv.simulations.apps.handing import Handed
from fedpriv.simulations.apps.launching import Job
from fedpriv.simulations.audit.battery import RACER
from fedpriv.simulations.audit.conclusion import counts, saved_steps, sentence
from fedpriv.simulations.audit.coverage import NIST, Line, claims_of, threat_of
from fedpriv.simulations.audit.ending import SCHEMA
from fedpriv.simulations.judging.conditions import row_of
from fedpriv.simulations.judging.deciding import decided
from fedpriv.simulations.judging.outcome import Outcome, Word, overall

ASKED = ("sample", "member")  # kinds of claim that must be decided for an app to hold


def lines(tried: Tried, alone: Handed | None = None) -> list[Line]:
    """Every threat model and kind of claim: tested, or why not."""
    done = {str(row.get("attack", "")) for row in tried.rows}
    groups: dict[tuple[str, str], list[str]] = {}
    for name in ATTACKS:
        row = row_of(name)
        if row.decides:
            for claim in claims_of(row):
                groups.setdefault((threat_of(row), claim), []).append(name)
    found = []
    for (threat, claim), names in groups.items():
        tested = tuple(name for name in names if name in done)
        why = next((tried.left[name] for name in names if name in tried.left), "it failed")
        state: Any = "tested" if tested else "not tested"
        if not tested and any(word in threat for word in ("party", "who knows")):
            state = "does not apply"
        found.append(Line(threat, claim, NIST.get(claim, ""), state, tested, "" if tested else why))
    if alone is not None and alone.outcome is not None:
        threat = f"someone who is handed single steps of {alone.samples} samples"
        found.insert(0, Line(threat, "sample", NIST["sample"], "tested", (RACER,)))
    return found


def trials_of(alone: Handed | None) -> dict[str, Any]:
    """How many steps the attack on single steps took, by what it was tried on."""
    if alone is None or alone.trial is None:
        return {}
    return {f"single steps of {alone.samples}": {RACER: alone.trial.plain()}}


def doubts_of(
    tried: Tried,
    found: Sequence[Outcome],
    whole: bool,
    rounds: int,
    reasons: Sequence[str],
    alone: Handed | None,
) -> list[str]:
    """What keeps an app from holding although no leak was found."""
    known = {one.claim for one in found}
    handed = alone is not None and "sample" not in known
    return [
        *([] if whole else [f"the app was stopped after {rounds} rounds"]),
        *([alone.sentence] if handed and alone is not None else []),
        *(
            f"no {claim} could be scored"
            for claim in ASKED
            if claim not in known and not (handed and claim == "sample")
        ),
        *reasons,
        *(f"{one['attack']} failed" for one in tried.failed),
        *(["some attacks were cut short"] if tried.partial else []),
    ]


def of_single_steps(alone: Handed | None) -> list[Outcome]:
    """What single steps say about the updates: they hold, or nothing is decided."""
    if alone is None or alone.outcome is None:
        return []
    word: Word = "holds" if alone.holds else "undecided"
    return [replace(alone.outcome, word=word, why=alone.sentence)]


def verdict_on(
    folder: RunFolder,
    about: dict[str, Any],
    tried: Tried,
    *,
    whole: bool,
    alone: Handed | None,
    reasons: Sequence[str],
    minutes: tuple[float, float],
    epsilon: dict[str, Any] | None,
    job: Job,
    config: Mapping[str, Any],
    clients: int,
    places: Sequence[tuple[int, int]],
    model: str,
) -> dict[str, Any]:
    """The verdict, written to `verdict.json`.

    `places` are (round, client) of all that took part in the training.
    """
    own = decided((), tried.rows)
    found = [*own, *of_single_steps(alone)]
    rounds = len(folder.rounds())
    doubts = doubts_of(tried, found, whole, rounds, reasons, alone)
    word = overall(found, doubts)
    open_ = word == "undecided"
    said = sentence(word, found, doubts)
    trials = trials_of(alone)
    said += saved_steps(trials)
    if epsilon is not None:
        said += f" {epsilon['sentence']}"
    verdict: dict[str, Any] = {
        "schema": SCHEMA,
        "app": about,
        "outcome": word,
        "sentence": said,
        "doubts": doubts,
        "questions": [one.plain() for one in found],
        "besides": [],
        **counts(found),
        "possible": {"outcome": "undecided", "sentence": "", "questions": []},
        "malicious": {
            "outcome": "undecided",
            "sentence": "",
            "questions": [],
            "turned-away": {},
            "guarded": None,
        },
        "coverage": [line.plain() for line in lines(tried, alone)],
        "trials": trials,
        "races": {},
        "gates": [],
        "accuracy": None,
        "rounds": {"trained": rounds, "wanted": rounds if whole else rounds + 1},
        "defences": [],
        "untried": [],
        "defended-cell": "",
        "cheapest": None,
        "largest-epsilon": None,
        "epsilon-curve": [],
        "advice": "",
        "next": (deciding(job, config, clients, places, own, alone, whole) if open_ else None)
        or next_for(word, command_of(job), folder, model),
        "missing": tried.failed,
        "work": {"units": 0, "full": 0, "unit-seconds": None, "workers": 1},
        "minutes": {"given": minutes[0], "used": round(minutes[1], 2)},
        "interrupted": False,
        "dp-card": None,
        "folder": str(folder.path),
    }
    if epsilon is not None:
        verdict["epsilon"] = epsilon
    folder.write_gates([])
    folder.write_verdict(verdict)
    return verdict


def next_for(word: Word, command: str, folder: RunFolder, model: str) -> dict[str, str]:
    """What to do after the verdict; `model` is where the app's folder has it, if it does."""
    if word == "leaks":
        what = (
            "More local steps, larger batches, secure aggregation or noise make updates say less. "
            "Change the app and audit it again:"
        )
        return {"what": what, "command": command}
    if word == "holds":
        what = "Print it and sign it. Audit again when the app or its data change:"
        return {"what": what, "command": shlex.join(["fedpriv", "report", str(folder.path)])}
    where = str(folder.observations)
    if not model:
        what = "See what the server knows of the training, and what it does not:"
        return {"what": what, "command": shlex.join(["fedpriv", "facts", where])}
    what = "In the app's folder, see what an attack gets from a client that the attacker planted:"
    again = ["fedpriv", "preflight", where, "--model", model, "--control"]
    return {"what": what, "command": shlex.join(again)}


def start(folder: RunFolder, name: str, clients: int, rounds: Sequence[dict[str, Any]]) -> None:
    """The run folder of an app, as a page reads it; its settings are in app.json."""
    scenario = from_tables(
        {"name": name, "federation": {"clients": max(1, clients), "rounds": max(1, len(rounds))}}
    )
    folder.start(scenario)
    for number, record in enumerate(rounds, 1):
        folder.add_round({**record, "round": number})
