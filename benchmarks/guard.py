"""How often the guard is right, against every malicious server and over honest rounds.

    python benchmarks/guard.py --rounds 50 --out guard.json

Federations of several models and partitions train honestly; a client looks at every model it gets.
At some rounds each malicious server plants its weights in the honest model, and the same clients
look again. A look's score is its largest sign over that sign's limit: the guard's alarm is a score
of 1. The area under the ROC curve and the detections at that alarm are per malicious server, false
alarms are per look.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from flwr.app import Context, RecordDict

from fedpriv.clients.job import Job, fit, make_job
from fedpriv.clients.plugins.guard import change, over_limit, signs
from fedpriv.clients.truth import as_it_is
from fedpriv.scenario import Scenario, read
from fedpriv.scenario.built import dataset_of, first_state, model_of, test_samples
from fedpriv.state import State, norm, state_of
from fedpriv.strategies.fedavg import weighted_mean
from fedpriv.strategies.malicious.catalogue import MALICIOUS
from fedpriv.strategies.malicious.wrapper import Known

FEDERATIONS = (
    ("mlp", "iid", 0.1),
    ("mlp", "dirichlet", 0.3),
    ("lenet", "iid", 0.1),
    ("lenet", "dirichlet", 0.1),
)

SENDERS: tuple[tuple[str, str, dict], ...] = (
    *((name, name, {}) for name in MALICIOUS),
    # The same with less to be seen and less to be read: an attacker who knows of the guard.
    ("trap-weights, batch 4", "trap-weights", {"batch": 4}),
    ("loss-scaling, factor 5", "loss-scaling", {"factor": 5.0}),
    ("feature-fishing, soft", "feature-fishing", {"steepness": 20.0}),
)


def context_of(partition: int, count: int) -> Context:
    own = {"partition-id": partition, "num-partitions": count, "secret-seed": partition}
    return Context(run_id=1, node_id=partition, node_config=own, state=RecordDict(), run_config={})


def norms_of(state: State) -> dict[str, float]:
    return {name: norm({name: value}) for name, value in state.items() if value.dim() >= 2}


def score(job: Job, before: State | None) -> float:
    """A look at the model of a job: the largest sign over its limit."""
    found = signs(job.shared, job.start, job.x[:128], job.y[:128])
    if before is not None:
        found["change of weights"] = change(norms_of(job.start), norms_of(before))
    return max(over_limit(found).values())


def looks(scenario: Scenario, rounds: int, attacked: set[int]) -> Iterator[tuple[str, int, float]]:
    """Who sent the model, in which round, and the score of a client's look at it."""
    x, y = test_samples(scenario)
    known = Known(model_of(scenario), x, y, dataset_of(scenario).classes)
    count = scenario.federation.clients
    contexts = [context_of(i, count) for i in range(count)]
    state, before = first_state(scenario), None
    for server_round in range(1, rounds + 1):
        after = []
        for context in contexts:
            job = make_job(scenario, state, server_round, context)
            yield "honest", server_round, score(job, before)
            fit(job, as_it_is)
            after.append(state_of(job.shared))
        for label, name, options in SENDERS if server_round in attacked else ():
            planted = MALICIOUS.build(name, options)(state, known)
            for context in contexts:
                job = make_job(scenario, planted, server_round, context)
                yield label, server_round, score(job, before)
        before, state = state, weighted_mean(after, [1.0] * count)


def area(honest: torch.Tensor, malicious: torch.Tensor) -> float:
    """Under the ROC curve: the chance that a malicious look scores above an honest one."""
    above = (malicious[:, None] > honest[None]).double()
    return float((above + 0.5 * (malicious[:, None] == honest[None])).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="The guard's ROC.")
    parser.add_argument("--rounds", type=int, default=50, help="honest rounds of each federation")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, scores = time.perf_counter(), dict[str, list[float]]()
    for model, partition, lr in FEDERATIONS:
        scenario = read(
            "quickstart",
            [
                f"model.name={model}",
                f"data.partition={partition}",
                "data.alpha=0.3",
                f"training.lr={lr}",
                "training.local-steps=10",
                "federation.clients=4",
            ],
        )
        attacked = {1, 2, given.rounds // 2, given.rounds}
        for sender, _, value in looks(scenario, given.rounds, attacked):
            scores.setdefault(sender, []).append(value)
    honest = torch.tensor(scores.pop("honest"))
    alarms = int((honest >= 1).sum())
    rows = {
        name: {
            "looks": len(values),
            "area": round(area(honest, torch.tensor(values)), 4),
            "detected": round(float((torch.tensor(values) >= 1).float().mean()), 4),
            "lowest-score": round(min(values), 2),
        }
        for name, values in scores.items()
    }
    print("| malicious server | looks | area under ROC | detected | lowest score |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(str(value) for value in row.values()) + " |")
    print(
        f"\nhonest: {alarms} alarms in {len(honest)} looks over {len(FEDERATIONS) * given.rounds} "
        f"rounds; highest score {float(honest.max()):.2f}; {time.perf_counter() - began:.0f} s"
    )
    if given.out:
        summary = {"alarms": alarms, "looks": len(honest), "highest": float(honest.max())}
        given.out.write_text(json.dumps({"honest": summary, "malicious": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
