"""A federation with canaries, trained once: ε from below, from updates and from the last model."""

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from scipy.stats import chi2

from fedpriv.errors import BadInput
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.observation import Observation
from fedpriv.files import write_text
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario, from_tables, merged, read
from fedpriv.scenario.built import dataset_of, first_state, model_of
from fedpriv.simulations.dp import watching, worst_case
from fedpriv.simulations.dp.bounds import gaussian_epsilon, moment_shift, why_not_gaussian
from fedpriv.simulations.dp.canaries import HERE, base_of, drawn_canaries
from fedpriv.simulations.dp.checks import account_of
from fedpriv.simulations.dp.examine import Tell
from fedpriv.simulations.dp.findings import FALSE_REFUTATION, Bound, Claim, Examination, Finding
from fedpriv.simulations.dp.one_run import Guesses, one_run, one_run_fdp
from fedpriv.simulations.dp.worst_case import HERE as WORST
from fedpriv.strategies.catalogue import row_of

GUESSED = (0.05, 0.25)  # shares of the canaries that are guessed to be in
FILE = "verify-dp.json"
ALONG, CHANGES = "updates, along the canary", "updates, their changes over rounds"
LOSS, ENTRY = "last model, loss of the canary", "last model, entry of the canary"
Scores = dict[str, np.ndarray]
ASSUMES = "Gaussian scores, independent of each other"


@dataclass(frozen=True)
class Result:
    """An examination, with what the canaries cost."""

    examination: Examination
    facts: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        facts = self.facts
        return [
            f"{facts['canaries']} canaries ({facts['inside']} in) beside {facts['samples']} "
            f"samples: the last model has an accuracy of {facts['accuracy']:.1%} with them.",
            f"claimed: {self.examination.claim}; empirical from updates "
            f"{facts['from-updates']:.3g}, from the last model {facts['from-model']:.3g}.",
        ]


def canaried(scenario: Scenario, count: int, kind: str) -> Scenario:
    """The scenario with canaries among its clients' samples, and every update recorded."""
    if row_of(scenario).reply != "update":
        raise BadInput(
            f"Strategy '{scenario.federation.strategy}' shares no updates; canaries need them."
        )
    clip = account_of(scenario, 1).clip
    if kind == "gradient":
        plain_sgd = scenario.training.optimiser == "sgd" and not scenario.training.momentum
        if not plain_sgd or scenario.training.weight_decay:
            raise BadInput("Canaries of kind 'gradient' need SGD without momentum and decay.")
    elif scenario.data.limit is not None or scenario.training.holdout:
        raise BadInput("Canaries cannot be told apart from others under data.limit or holdout.")
    options = {
        "base": scenario.data.name,
        "count": count,
        "kind": kind,
        "clients": scenario.federation.clients,
        "draw": scenario.seed,
        "options": json.dumps(dict(scenario.data.options), sort_keys=True),
    }
    data = {"name": f"{HERE}:with_canaries", "partition": "natural", "options": options}
    tables = scenario.plain()
    if kind == "gradient":
        own = {"count": count, "clients": scenario.federation.clients, "draw": scenario.seed}
        tables["plugins"] = [
            *tables["plugins"],
            {"name": f"{WORST}:GradientCanaries", "max-grad-norm": clip, **own},
        ]
    else:
        tables["data"] = data
    tables |= {"name": f"verify-{scenario.name}", "keep-truth": False}
    tables["attacks"] = [{"name": "dlg", "rounds": "all"}]  # records every update; none is attacked
    for unused in ("gate", "variants", "defences", "sweep", "malicious"):
        tables.pop(unused, None)
    return from_tables(merged(tables, {"federation": {"backend": "inline"}}))


def run_checked(
    name: str,
    settings: Iterable[str],
    *,
    epsilon: float | None,
    delta: float,
    canaries: int,
    kind: str,
    folder: Path | None = None,
    tell: Tell = lambda line: None,
) -> Result:
    """Train once with canaries, then judge every score that an attacker could make of it."""
    from fedpriv.simulations.federation.progress import PlainLines
    from fedpriv.simulations.federation.run import simulate

    begun = time.monotonic()
    plain = read(name, settings)
    account_of(plain, plain.federation.rounds)  # a scenario without dp claims nothing
    scenario = canaried(plain, canaries, kind)
    place = RunFolder(folder) if folder else new_folder(scenario.name)
    simulate(scenario, place, PlainLines(Console(stderr=True)))
    records = place.rounds()
    value = epsilon if epsilon is not None else records[-1].get("train-epsilon")
    if value is None:
        raise BadInput(f"The run in '{place.path}' reports no ε; give --epsilon.")
    tell(f"trained in {time.monotonic() - begun:.0f} s; scoring canaries")
    evidence = updates_in(place)
    if kind == "gradient":
        scores, inside = scored_entries(scenario, place, evidence, canaries)
    else:
        scores, inside = scored_samples(plain, scenario, place, evidence, canaries, kind)
    result = Examination(plain.name, Claim(float(value), delta, "sample"))
    result.findings += list(repeated_noise(scenario, evidence, len(records)))
    judge(scores, inside, result)
    result.draws, result.seconds = canaries, time.monotonic() - begun

    def best(where: str) -> float:
        found = [b.epsilon for b in result.bounds if b.score.startswith(where)]
        return max(found, default=0.0)

    facts = {
        "canaries": canaries,
        "inside": int(inside.sum()),
        "samples": len(dataset_of(plain).y_train),
        "kind": kind,
        "accuracy": records[-1]["accuracy"],
        "from-updates": best("updates"),
        "from-model": best("last model"),
        "folder": str(place.path),
    }
    write_text(place.path / FILE, json.dumps(result.plain() | facts, indent=1))
    return Result(result, facts)


def updates_in(place: RunFolder) -> list[Observation]:
    evidence, broken = load_folder(place.observations)
    if broken:
        raise BadInput(f"{len(broken)} recorded updates cannot be read: {broken[0][1]}")
    return [seen for seen in evidence if isinstance(seen, Observation)]


def scored_samples(
    plain: Scenario,
    scenario: Scenario,
    place: RunFolder,
    updates: list[Observation],
    count: int,
    kind: str,
) -> tuple[Scores, np.ndarray]:
    """The scores of canary samples, by who makes them; and which canaries were in."""
    base = base_of(plain.data.name, json.dumps(dict(plain.data.options), sort_keys=True), None)
    drawn = drawn_canaries(base, count, kind, plain.federation.clients, plain.seed)
    model, x = model_of(scenario), base.normalised(drawn.x)
    along, changes = watching.from_updates(model, updates, x, drawn.y, drawn.owner)
    last = watching.from_model(model, first_state(scenario), place.checkpoint_state(), x, drawn.y)
    found = {ALONG: along, CHANGES: changes, LOSS: last}
    return {k: v.double().numpy() for k, v in found.items()}, drawn.inside.numpy()


def scored_entries(
    scenario: Scenario, place: RunFolder, updates: list[Observation], count: int
) -> tuple[Scores, np.ndarray]:
    """The same for canaries that are one entry of the model each."""
    names = [name for name, _ in model_of(scenario).named_parameters()]
    first, last = first_state(scenario), place.checkpoint_state()
    change = torch.cat([(first[name] - last[name]).flatten() for name in names])
    clients, seed = scenario.federation.clients, scenario.seed
    drawn = worst_case.drawn_entries(len(change), count, clients, seed)
    along, changes = worst_case.scores(updates, names, drawn)
    found = {ALONG: along, CHANGES: changes, ENTRY: change[drawn.entry]}
    return {k: v.double().numpy() for k, v in found.items()}, drawn.inside.numpy()


def judge(scores: Scores, inside: np.ndarray, result: Examination) -> None:
    """Bounds of every score; how many canaries are guessed is fixed beforehand."""
    each = 2 * len(GUESSED) + 1
    result.tests += each * len(scores)
    level, delta = FALSE_REFUTATION / result.tests, result.claim.delta
    for name, values in scores.items():
        a, b = values[inside], values[~inside]
        for share in GUESSED:
            threshold = float(np.quantile(values, 1 - share))
            guesses = Guesses.at(threshold, a, b)
            game = f"{guesses.right} of {guesses.made} guesses right"
            for method, bound, assumes in (
                ("one run", one_run, "nothing"),
                ("one run f-DP", one_run_fdp, "Gaussian noise"),
            ):
                found = bound(guesses, level, delta)
                result.bounds.append(Bound(found, method, game, name, assumes, len(values)))
        why = why_not_gaussian(a, b)
        if why is not None:
            result.left_out.append(f"moments of {name}: {why}.")
            continue
        shift = moment_shift(a, b, level)
        epsilon = gaussian_epsilon(shift, delta)
        result.bounds.append(Bound(epsilon, "moments", "all scores", name, ASSUMES, len(values)))


def repeated_noise(
    scenario: Scenario, evidence: list[Observation], rounds: int
) -> Iterator[Finding]:
    """Two updates of a client whose difference is shorter than fresh noise alone would make it.

    Fresh noise of lr·σ·C/B in each step leaves a χ² of as many degrees as the model has weights,
    times twice that variance. Momentum only adds to it; Adam rescales it and is left out.
    """
    training = scenario.training
    if training.optimiser != "sgd" or training.schedule_rounds:
        return
    account = account_of(scenario, rounds)
    variance = 2 * account.steps * (training.lr * account.noise / training.batch_size) ** 2
    for client, (square, size) in watching.shortest_difference(
        model_of(scenario), evidence
    ).items():
        # Half of the steps is a margin for clients with fewer of them.
        chance = float(chi2.logcdf(size * square / (variance / 2), size))
        if chance < math.log(1e-12):
            yield Finding(
                "noise repeats over rounds, or there is less of it than is accounted for",
                f"client {client}: two of its updates differ by {math.sqrt(square):.3g} in each "
                f"weight, and fresh noise alone differs by {math.sqrt(variance):.3g}",
                refutes=True,
            )
            return
