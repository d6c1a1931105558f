"""The process of one app: run it, attack what its server saw, score it, say what holds."""

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from fedpriv.clients.keeping import labels_in
from fedpriv.errors import BadObservation, FedprivError
from fedpriv.evidence.claims import Public
from fedpriv.evidence.naming import fitted_to
from fedpriv.evidence.observation import Observation, check_finite
from fedpriv.files import write_text
from fedpriv.report.page import write_report
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.apps.adapting import adapted
from fedpriv.simulations.apps.attempts import Tried, tried
from fedpriv.simulations.apps.concluding import start, verdict_on
from fedpriv.simulations.apps.launching import ERROR, Job
from fedpriv.simulations.apps.running import watched_run
from fedpriv.simulations.apps.serving import parsed_data, serve
from fedpriv.simulations.apps.source import Source, check_names, read_source
from fedpriv.simulations.apps.spending import Mechanism, sentence, verified
from fedpriv.simulations.apps.support import NotSupported, check_supported
from fedpriv.simulations.apps.suspects import evaluated, make_suspects, why_no_candidates
from fedpriv.simulations.apps.watching import Watched, sums_of
from fedpriv.simulations.federation.run import deliberate_threads
from fedpriv.simulations.judging.findings import examined, findings_of
from fedpriv.simulations.judging.sums import join_truths
from fedpriv.simulations.stopping import stoppable

TRAINING = 0.5  # the part of the time that the app itself may take
EXAMINED = 10  # updates that preflight looks at
DELTA = 1e-5


def judge(job: Job) -> dict[str, Any]:
    """All of it, for one app; the verdict."""
    started = time.monotonic()
    folder, seconds = RunFolder(Path(job.out)), 60 * job.minutes
    source = read_source(job.app, job.run_config)
    check_supported(source)
    check_names(source)
    serve(parsed_data(job.data))
    for pin in source.pins[:1]:
        tell(
            f"the app's pinned versions are ignored ({pin} and the like): it runs with what is "
            "installed here"
        )
    deliberate_threads()
    with stoppable() as going_on:
        watched, private, whole = watched_run(
            source,
            folder.path,
            clients=job.clients,
            seconds=TRAINING * seconds,
            going_on=lambda: going_on(0.0, 0.0),
        )
        tell(
            f"{len(watched.rounds)} rounds in {time.monotonic() - started:.0f} s; "
            f"{len(watched.evidence)} updates seen"
        )
        start(folder, source.name, job.clients, watched.rounds)
        evidence, reasons = usable(watched, job.clients)
        for seen in evidence:
            seen.save(folder.observations)
        if watched.summed:
            join_truths(folder, job.clients)
        public = public_of(watched, evidence)
        why_not_asked = why_no_candidates(public, watched.notes, watched.eyes)
        if not evidence:
            attempts = Tried()
        else:
            last = max(seen.round for seen in evidence)
            reasons += asked_about(folder, last, job.clients, public, why_not_asked)
            ends = started + seconds
            attempts = tried(
                evidence,
                folder,
                source.name,
                asked=folder.candidates_file.exists(),
                used=defences(evidence[0], private),
                public=public,
                progress=lambda part, loss: time.monotonic() < ends and going_on(part, loss),
            )
    folder.write_findings(findings(watched, evidence, folder))
    about = about_app(source, watched, evidence, job)
    folder.write_app(about)
    verdict = verdict_on(
        folder,
        about,
        attempts,
        whole=whole,
        reasons=[*reasons, *untried(attempts)],
        minutes=(job.minutes, (time.monotonic() - started) / 60),
        epsilon=epsilon_of(watched, private, source, folder),
        command=shlex.join(["fedpriv", "audit", "--app", job.app]),
    )
    write_report([folder.path])
    return verdict


def usable(watched: Watched, clients: int) -> tuple[list[Observation], list[str]]:
    """The updates bound to the app's model, and why there are none."""
    seen = sums_of(watched, clients) if watched.summed else watched.evidence
    if not seen:
        return [], ["no round's sum was seen twice" if watched.summed else "no update was seen"]
    notes = next((one for one in watched.notes if one.x), watched.notes[0])
    try:
        model = adapted(notes, set(seen[0].sent))
    except NotSupported as error:
        return [], [str(error).rstrip(".")]
    if seen[0].loss != "cross-entropy" or "loss" in seen[0].unknown:
        named = " and ".join(sorted(notes.losses)) or "unknown"
        return [], [f"its loss ({named}) is not supported yet: attacks know cross-entropy"]
    good = [one for one in seen if finite(one)]
    reasons = [f"{len(seen) - len(good)} updates hold NaN or infinity"] if good != seen else []
    return [fitted_to(one, model).on(model) for one in good], reasons


def finite(seen: Observation) -> bool:
    """Whether neither side holds NaN or an infinity, as after a client diverged."""
    try:
        check_finite(seen)
    except BadObservation:
        return False
    return True


def public_of(watched: Watched, evidence: list[Observation]) -> Public | None:
    shape = evidence[0].input_shape if evidence else ()
    return evaluated(watched.eyes, watched.numbers, tuple(shape))


def asked_about(
    folder: RunFolder, last: int, clients: int, public: Public | None, why: str
) -> list[str]:
    """Candidates in the folder, or why membership is not asked about."""
    if why or public is None:
        return [f"membership was not tested: {why}"]
    found = [folder.truth_of(path.stem) for path in sorted(folder.truth.glob(f"{last}-*.npz"))]
    truths = [one for one in found if one is not None and (one.y >= 0).all()]
    truths = [one for one in truths if one.node < clients]  # the number after them is a sum's
    if not make_suspects(folder, truths, public):
        return ["membership was not tested: too few samples have labels that can be matched"]
    return []


def defences(seen: Observation, private: list[Mechanism]) -> frozenset[str]:
    """What clients were seen to use, by the names of our plugins.

    Entries of the model that never came back are compared as pruned ones are.
    """
    still = any(not bool(change.any()) for change in seen.delta.values() if change.numel() > 1)
    return frozenset([*(["pruning"] if still else []), *(["dp"] if private else [])])


def untried(attempts: Tried) -> list[str]:
    """Why no search for samples was tried, where none was."""
    scored = {str(row.get("claim", "")) for row in attempts.rows}
    if "sample" in scored or not attempts.left:
        return []
    why = next((text for text in attempts.left.values() if "behind one update" in text), "")
    return [f"no search for samples was tried: {why}"] if why else []


def findings(
    watched: Watched, evidence: list[Observation], folder: RunFolder
) -> list[dict[str, Any]]:
    """Preflight's, and where clients report what they did not do."""
    one_step = [seen for seen in evidence if seen.local_steps == 1 and seen.knows("local_steps")]
    known = {seen.name for seen in one_step}
    found = findings_of(
        examined(
            evidence[:EXAMINED],
            lambda name: folder.truth_of(name) if name in known else None,
        )
    )
    for told, trained in sorted(watched.miscounted)[:1]:
        found.append(
            {
                "cause": "num-examples",
                "severity": "note",
                "detail": f"the app reports {told} examples, which is its number of batches, where "
                f"a client trained on {trained} samples: FedAvg weighs clients by it.",
                "evidence": [],
            }
        )
    return found


def about_app(
    source: Source, watched: Watched, evidence: list[Observation], job: Job
) -> dict[str, Any]:
    """Name, commit, hash, facts that the server knows, and apart from them the clients' truth."""
    notes = watched.notes[0] if watched.notes else None
    facts = evidence[0].facts if evidence else {}
    truth = {}
    if notes is not None:
        truth = {
            "optimiser": notes.optimiser,
            "options": notes.options,
            "steps": sorted({one.steps for one in watched.notes}),
            "batch-sizes": sorted({size for one in watched.notes for size in one.sizes}),
            "loss": sorted(notes.losses),
            "model": None if notes.model is None else type(notes.model).__name__,
            "augmentation": sorted(watched.eyes.random),
            "normalisation": sorted(watched.eyes.normalised),
            "labels": bool(len(notes.y) and (labels_in(notes) >= 0).all()),
        }
    return {
        **source.plain(),
        "data": list(job.data),
        "clients": job.clients,
        "secure-aggregation": watched.summed,
        "facts": facts,
        "truth": truth,
    }


def epsilon_of(
    watched: Watched, private: list[Mechanism], source: Source, folder: RunFolder
) -> dict[str, Any] | None:
    """What the app's own ε is worth, where it reports one."""
    delta = next(
        (float(v) for k, v in source.config.items() if "delta" in k and 0 < float(v) < 1), DELTA
    )
    if len(watched.rounds) < 2:  # one round cannot show whether the app counts them all
        return None
    found = verified(watched, private, len(watched.rounds), delta)
    if found is None:
        return None
    verdict, claimed = found
    folder.write_verified("claim", verdict.plain())
    said = sentence(verdict, len(watched.rounds))
    return {"claimed": claimed, "low": verdict.low, "high": verdict.high, "sentence": said}


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(path: str) -> int:
    """Judge the app of a job file; 0, or the code of an error that is written beside it."""
    job = Job(**json.loads(Path(path).read_text("utf-8")))
    try:
        judge(job)
    except FedprivError as error:
        found = {"code": error.exit_code, "message": str(error)}
        write_text(Path(job.out) / ERROR, json.dumps(found))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
