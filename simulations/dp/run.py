"""A federation with canaries, trained once: ε from below, from updates and from the last model.

A second training without noise is the attack's own control. An attack that cannot see canaries even
there says nothing about the noise.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from scipy.stats import chi2

from fedpriv.errors import BadInput
from fedpriv.evidence.folder import load_folder
from fedpriv.evidence.observation import Observation
from fedpriv.runfolder import RunFolder, new_folder
from fedpriv.scenario import Scenario, read
from fedpriv.scenario.built import dataset_of, model_of
from fedpriv.simulations.dp import watching
from fedpriv.simulations.dp.accounting import exact
from fedpriv.simulations.dp.accounts import account_of, claimed_in, planned, turns_in
from fedpriv.simulations.dp.audits import Scores, audit_of, noiseless
from fedpriv.simulations.dp.bounds import (
    gaussian_epsilon,
    gdp_shift,
    moment_shift,
    why_not_gaussian,
)
from fedpriv.simulations.dp.by_step import Rounds, sampled_epsilon
from fedpriv.simulations.dp.card import written_card
from fedpriv.simulations.dp.examine import Tell
from fedpriv.simulations.dp.findings import GAUSSIAN, NOTHING, Bound, Claim, Examination, Finding
from fedpriv.simulations.dp.one_run import Guesses, one_run, one_run_fdp
from fedpriv.simulations.dp.scores import Score, best_gaussian

GUESSED = (0.05, 0.25)  # shares of the canaries that are guessed to be in
SEEN = 1.0  # the ε that an attack must find without noise
APART = f"{GAUSSIAN}, scores independent of each other"
DRAWN_AS_TOLD = f"{APART}, batches drawn at the rate that is told"
STEPS = "updates, noise of single rounds"
CURVE = "the trade-off curve of Gaussian noise"
TRAINED = (
    "canaries are in or out by coins of their own",
    "the training is the one that is claimed: clip norm, sampling and steps as in the scenario",
)


@dataclass(frozen=True)
class Result:
    """An examination, with what the canaries cost."""

    examination: Examination
    facts: dict[str, Any]

    @property
    def lines(self) -> list[str]:
        facts = self.facts
        places = facts["places"]
        return [
            f"{facts['canaries']} canaries beside {facts['samples']} samples: the last model has "
            f"an accuracy of {facts['accuracy']:.1%} with them.",
            f"claimed: {self.examination.claim}",
            *(
                f"empirical from {place}: at least {found['epsilon']:.3g}; its control without "
                f"noise: {found['control']:.3g}{'' if found['sees'] else ', so it sees nothing'}."
                for place, found in places.items()
            ),
        ]


def run_checked(
    name: str,
    settings: Iterable[str],
    *,
    epsilon: float | None,
    delta: float,
    canaries: int,
    kind: str,
    unit: str = "sample",
    folder: Path | None = None,
    tell: Tell = lambda line: None,
) -> Result:
    """Train once with canaries, then judge every score that an attacker could make of it.

    `name` is a scenario, or the folder of a run: then its scenario is trained again, and what was
    found is written into that folder too.
    """
    begun = time.monotonic()
    about = RunFolder(Path(name)) if Path(name).is_dir() else None
    plain = read(str(about.scenario_file) if about else name, settings)
    audit = audit_of(plain, canaries, kind, unit)
    place = RunFolder(folder) if folder else new_folder(audit.scenario.name)
    trained(audit.scenario, place)
    records = place.rounds()
    claim = claim_of(plain, records, epsilon, delta, unit)
    tell(f"trained in {time.monotonic() - begun:.0f} s; scoring canaries")
    evidence = updates_in(place)
    result = Examination(plain.name, claim, always=TRAINED)
    if unit == "sample":
        result.findings += list(repeated_noise(audit.scenario, evidence, len(records)))
    seen = audit.rounds(evidence) if audit.rounds else None
    judge(audit.scored(place, evidence), result, seen)
    tell("the same without noise: the attack's own control")
    control = Examination("control", claim)
    with TemporaryDirectory() as path:
        second = RunFolder(Path(path) / "control")
        trained(noiseless(audit.scenario), second)
        judge(audit.scored(second, updates_in(second)), control)
    places = compared(result, control)
    result.draws, result.seconds = canaries, time.monotonic() - begun
    facts = {
        "canaries": canaries,
        "samples": len(dataset_of(plain).y_train),
        "kind": kind if unit == "sample" else "client",
        "accuracy": records[-1]["accuracy"],
        "places": places,
        "folder": str(place.path),
    }
    for one in (place, about) if about else (place,):
        one.write_verified("run", result.plain() | facts)
        written_card(one)
    return Result(result, facts)


def trained(scenario: Scenario, place: RunFolder) -> None:
    from fedpriv.simulations.federation.progress import PlainLines
    from fedpriv.simulations.federation.run import simulate

    simulate(scenario, place, PlainLines(Console(stderr=True)))


def claim_of(
    plain: Scenario,
    records: list[dict[str, Any]],
    epsilon: float | None,
    delta: float,
    unit: str,
) -> Claim:
    """What is claimed: by hand, by the run itself, or by the account of its settings."""
    last = records[-1]
    if unit == "client":
        value = epsilon if epsilon is not None else last.get("user-epsilon")
        if value is None:
            raise BadInput(
                f"The strategy '{plain.federation.strategy}' reports no ε; give --epsilon."
            )
        own = last.get("user-privacy", {}).get("delta", delta)
        return Claim(float(value), own if epsilon is None else delta, "client")
    value = epsilon if epsilon is not None else claimed_in(records)
    if value is None:
        account = account_of(plain, turns_in(plain, records))
        return Claim(exact(account)[1], account.delta, "sample")
    return Claim(float(value), delta, "sample")


def compared(result: Examination, control: Examination) -> dict[str, dict[str, Any]]:
    """What was found from each place beside its control; no place that sees is no answer."""

    def best(found: Examination, where: str) -> float:
        return max((b.epsilon for b in found.bounds if b.score.startswith(where)), default=0.0)

    places: dict[str, dict[str, Any]] = {}
    for where in dict.fromkeys(bound.score.partition(",")[0] for bound in result.bounds):
        seen = best(control, where)
        places[where] = {"epsilon": best(result, where), "control": seen, "sees": seen >= SEEN}
    if not any(found["sees"] for found in places.values()):
        most = max((found["control"] for found in places.values()), default=0.0)
        result.failed_control = (
            f"the attack fails its own control: without noise it finds ε ≥ {most:.3g} only, and "
            f"{SEEN:g} is asked for. Take more canaries, more rounds, or --kind gradient"
        )
    return places


def updates_in(place: RunFolder) -> list[Observation]:
    evidence, broken = load_folder(place.observations)
    if broken:
        raise BadInput(f"{len(broken)} recorded updates cannot be read: {broken[0][1]}")
    return [seen for seen in evidence if isinstance(seen, Observation)]


def judge(scores: Scores, result: Examination, seen: Rounds | None = None) -> None:
    """Bounds of every score; how many canaries are guessed is fixed beforehand.

    Counting right guesses needs canaries that are in or out by a coin. Canary clients are all in:
    their scores are compared with those of absent ones. For GDP, every second score chooses the
    threshold and the others are counted.
    """
    coin = result.claim.unit == "sample"
    each = 2 * len(GUESSED) * coin + 2
    # One for noise that repeats, and one for the noise of single rounds.
    result.tests += each * len(scores) + 1 + (seen is not None)
    level, delta = result.level, result.claim.delta
    for name, (a, b) in scores.items():
        values = np.concatenate([a, b])
        for share in GUESSED if coin else ():
            threshold = float(np.quantile(values, 1 - share))
            guesses = Guesses.at(threshold, a, b)
            game = f"{guesses.right} of {guesses.made} guesses right"
            for method, bound, assumes in (
                ("one run", one_run, NOTHING),
                ("one run f-DP", one_run_fdp, CURVE),
            ):
                found = bound(guesses, level, delta)
                result.bounds.append(Bound(found, method, game, name, assumes, len(values)))
        rule = best_gaussian(Score(name, lambda rows: rows), b[::2], a[::2], level)[1]
        shift = gdp_shift(rule.errors(b[1::2], a[1::2]), level)
        found = gaussian_epsilon(shift, delta)
        result.bounds.append(Bound(found, "GDP", "half of the scores", name, APART, len(values)))
        why = why_not_gaussian(a, b)
        if why is not None:
            result.left_out.append(f"moments of {name}: {why}.")
            continue
        shift = moment_shift(a, b, level)
        epsilon = gaussian_epsilon(shift, delta)
        result.bounds.append(Bound(epsilon, "moments", "all scores", name, APART, len(values)))
    if seen is None:
        return
    why = seen.why_not
    if why is not None:
        result.left_out.append(f"noise of single rounds: {why}.")
        return
    found, count = sampled_epsilon(seen, level, delta), len(seen.inside)
    result.bounds.append(Bound(found, "by step", "all rounds", STEPS, DRAWN_AS_TOLD, count))


def repeated_noise(
    scenario: Scenario, evidence: list[Observation], rounds: int
) -> Iterator[Finding]:
    """Two updates of a client whose difference is shorter than fresh noise alone would make it.

    Fresh noise of lr·σ·C/B in each step leaves a χ² of as many degrees as the model has weights,
    times twice that variance. Momentum only adds to it; Adam rescales it and is left out.
    """
    training = scenario.training
    if training.optimiser != "sgd" or training.schedule_rounds:
        return  # Adam rescales noise, and a schedule changes its size
    account = account_of(scenario, planned(scenario, rounds))
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
