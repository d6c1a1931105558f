"""The process of one app: run it, attack what its server saw, score it, say what holds."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from fedpriv.clients.keeping import labels_in
from fedpriv.errors import FedprivError
from fedpriv.evidence.claims import Public
from fedpriv.evidence.observation import Observation
from fedpriv.files import write_text
from fedpriv.report.page import write_report
from fedpriv.runfolder import RunFolder
from fedpriv.simulations.apps.attempts import BEHIND, Tried, tried
from fedpriv.simulations.apps.binding import (
    last_model,
    named_model,
    others_of,
    public_of,
    usable,
)
from fedpriv.simulations.apps.choosing import SIMULATED
from fedpriv.simulations.apps.concluding import start, verdict_on
from fedpriv.simulations.apps.handing import handed
from fedpriv.simulations.apps.launching import ERROR, Job
from fedpriv.simulations.apps.remarks import remarks
from fedpriv.simulations.apps.running import watched_run
from fedpriv.simulations.apps.serving import parsed_data, serve
from fedpriv.simulations.apps.source import Source, check_names, read_source
from fedpriv.simulations.apps.spending import Mechanism, sentence, verified
from fedpriv.simulations.apps.support import check_supported
from fedpriv.simulations.apps.suspects import make_suspects, why_no_candidates
from fedpriv.simulations.apps.watching import Watched
from fedpriv.simulations.federation.run import deliberate_threads
from fedpriv.simulations.judging.findings import examined, findings_of
from fedpriv.simulations.judging.sums import join_truths
from fedpriv.simulations.stopping import stoppable

TRAINING = 0.5  # the part of the time that the app itself may take
EXAMINED = 10  # updates that preflight looks at
DELTA = 1e-5
MOST_THREADS = 4  # of attacks: small networks gain nothing from more


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
    clients = job.clients or source.nodes or SIMULATED
    deliberate_threads()
    command = os.getppid()  # where it was ended from outside, nobody waits for a verdict
    with stoppable() as asked:

        def going_on(part: float, loss: float) -> bool:
            return os.getppid() == command and asked(part, loss)

        watched, private, whole = watched_run(
            source,
            folder.path,
            clients=clients,
            seconds=TRAINING * seconds,
            going_on=lambda: going_on(0.0, 0.0),
        )
        tell(
            f"{len(watched.rounds)} rounds in {time.monotonic() - started:.0f} s; "
            f"{len(watched.evidence)} updates seen"
        )
        deliberate_threads(min(MOST_THREADS, cores()))
        start(folder, source.name, clients, watched.rounds)
        evidence, reasons = usable(watched, clients)
        for seen in evidence:
            seen.save(folder.observations)
        if watched.summed:
            join_truths(folder, clients)
        public = public_of(watched, evidence)
        others = others_of(watched, evidence)
        alone = None
        if not evidence:
            attempts = Tried()
        else:
            last = max(seen.round for seen in evidence)
            folder.save_model(last_model(evidence), {"round": last})
            why = why_no_candidates(others, watched.eyes)
            reasons += asked_about(folder, clients, others, why)
            ends = started + seconds

            def in_time(part: float, loss: float) -> bool:
                return time.monotonic() < ends and going_on(part, loss)

            attempts = tried(
                evidence,
                folder,
                source.name,
                asked=folder.candidates_file.exists(),
                watched=watched,
                used=defences(evidence[0], private),
                public=public,
                progress=in_time,
            )
            if too_many(attempts):
                alone = handed(evidence, folder, watched, private, source.name, public, in_time)
    folder.write_findings(findings(watched, evidence, folder))
    about = about_app(source, watched, evidence, job, clients)
    folder.write_app(about)
    verdict = verdict_on(
        folder,
        about,
        attempts,
        whole=whole,
        alone=alone,
        reasons=reasons,
        minutes=(job.minutes, (time.monotonic() - started) / 60),
        epsilon=epsilon_of(watched, private, source, folder),
        job=job,
        config=source.config,
        clients=clients,
        places=sorted({(number, node) for number, node, _ in watched.metrics}),
        model=named_model(watched, source),
    )
    write_report([folder.path])
    return verdict


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def asked_about(folder: RunFolder, clients: int, public: Public | None, why: str) -> list[str]:
    """Candidates in the folder, or why membership is not asked about.

    Every client has as many, of the last round that it trained in.
    """
    if why or public is None:
        return [f"membership was not tested: {why}"]
    rounds = sorted({int(path.stem.partition("-")[0]) for path in folder.truth.glob("*.npz")})
    kept = [[folder.truth_of(f"{number}-{node}") for number in rounds] for node in range(clients)]
    last = [[one for one in own if one is not None][-1:] for own in kept]
    truths = [one for own in last for one in own if (one.y >= 0).all()]
    if not make_suspects(folder, truths, public):
        return ["membership was not tested: too few samples have labels that can be matched"]
    return []


def defences(seen: Observation, private: list[Mechanism]) -> frozenset[str]:
    """What clients were seen to use, by the names of our plugins.

    Entries of the model that never came back are compared as pruned ones are.
    """
    still = any(not bool(change.any()) for change in seen.delta.values() if change.numel() > 1)
    return frozenset([*(["pruning"] if still else []), *(["dp"] if private else [])])


def too_many(attempts: Tried) -> bool:
    """Whether no search for samples was tried because too many are behind an update."""
    scored = {str(row.get("claim", "")) for row in attempts.rows}
    return "sample" not in scored and any(BEHIND in why for why in attempts.left.values())


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
    return found + [
        {"cause": cause, "severity": "note", "detail": detail, "evidence": []}
        for cause, detail in remarks(watched)
    ]


def about_app(
    source: Source, watched: Watched, evidence: list[Observation], job: Job, clients: int
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
            "loss": sorted(watched.losses),
            "model": None if notes.model is None else type(notes.model).__name__,
            "augmentation": sorted(watched.eyes.random),
            "normalisation": sorted(watched.eyes.normalised),
            "labels": bool(len(notes.y) and (labels_in(notes) >= 0).all()),
        }
    return {
        **source.plain(),
        "data": list(job.data),
        "clients": clients,
        "clients-named-by": named_by(source, job),
        "secure-aggregation": watched.summed,
        "facts": facts,
        "truth": truth,
    }


def named_by(source: Source, job: Job) -> str:
    """Who said how many clients there are."""
    if job.clients is not None:
        return "--clients"
    return "the app" if source.nodes else "nobody"


def epsilon_of(
    watched: Watched, private: list[Mechanism], source: Source, folder: RunFolder
) -> dict[str, Any] | None:
    """What the app's own ε is worth, where it reports one."""
    delta = next(
        (float(v) for k, v in source.config.items() if "delta" in k and 0 < float(v) < 1), DELTA
    )
    local = any(one.epsilon is not None for one in private)
    if len(watched.rounds) < 2 and not local:  # one round cannot show whether all are counted
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
