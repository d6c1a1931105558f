"""Defences tried where a federation leaks worst, and the price of those that hold."""

from dataclasses import replace

from fedpriv.metrics.rates import exact_interval
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.controls import controlled
from fedpriv.simulations.audit.ladder import (
    Candidate,
    Price,
    candidates,
    judged_defence,
    trained,
)
from fedpriv.simulations.audit.series import inferred_from, recorded
from fedpriv.simulations.audit.stage import attacked
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.judging.deciding import decided

DEFENCES = 0.35  # the part of the units that defences have


def defences(work: Audit) -> None:
    """Each defence against what leaked worst, and the price of those that hold.

    Its training is attacked too, but not by those who train federations of their own: each would
    take as long as the audit. They come when the federation with that defence is audited.
    """
    cell = leaking_cell(work)
    if cell is None:
        return
    work.where = cell.name
    waiting = candidates(work.scenario, cell)
    each = int(DEFENCES * work.units) // max(1, len(waiting))
    for number, candidate in enumerate(waiting):
        if not work.in_time():
            work.untried = [one.name for one in waiting[number:]]
            return
        place = work.folder.below("defences", candidate.name)
        found = attacked(candidate.scenario, [cell], place, work.means, each, enough=0)
        found = controlled(found, candidate.scenario, place, work.means)
        own = [attack.name for attack in work.means.own]
        one = judged_defence(candidate, found, work.gates, own)
        if one.word == "holds":
            price = price_of(work, candidate)
            trained_in = training_of(work, candidate)
            series = inferred_from(
                candidate.scenario, trained_in, work.means, each, work.rounds, shadows=False
            )
            planted = work.series.controls
            one = judged_defence(candidate, found, work.gates, own, series, planted)
            one = replace(one, price=price)
        work.tried.append(one)
        work.tell(f"defence {one.name}: {one.word} {one.why}".rstrip())


def leaking_cell(work: Audit) -> Cell | None:
    """The cell whose leak is worst: of those that were configured, else of those possible."""
    for found, made in ((work.own, True), (work.series, True), (work.possible, False)):
        leaks = [one for one in decided(work.gates, found.rows) if one.word == "leaks"]
        if not leaks:
            continue
        worst = [
            row
            for row in found.rows
            if row.get("attack") == leaks[0].attack and row.get(leaks[0].metric) is not None
        ]
        gate = next((g for g in work.gates if g.metric == leaks[0].metric), None)
        row = (gate.worst(worst) if gate else None) or max(
            worst, key=lambda row: float(row[leaks[0].metric])
        )
        batch = None if made else int(row["batch"])
        return Cell(int(row["round"]), batch)
    return None


def training_of(work: Audit, candidate: Candidate, seed: int | None = None) -> RunFolder:
    """Where the training of a defended federation is, with the scenario's seed or another."""
    number = work.scenario.seed if seed is None else seed
    return work.folder.below("defences", f"{candidate.name}-trained-{number}")


def price_of(work: Audit, candidate: Candidate) -> Price:
    """Accuracy of a defence after the audit's rounds, with one more seed where time allows."""
    figures: list[tuple[float, float, float]] = []
    for seed in (work.scenario.seed, work.scenario.seed + 1):
        if figures and work.clock.left() < 4 * work.training * len(work.tried):
            break
        place = training_of(work, candidate, seed)
        chosen = replace(candidate.scenario, seed=seed)
        if not figures:  # the first training is attacked as a whole, too
            chosen = recorded(chosen, work.means.own)
        work.tell(f"training with {candidate.name}, seed {seed}, for its accuracy")
        one = trained(chosen, place, work.rounds, work.in_time, work.told)
        if one is None:
            break
        figures.append(one)
    if not figures:
        return Price()
    accuracies = tuple(accuracy for accuracy, _, _ in figures)
    tests = len(dataset_of(work.scenario).y_test)
    right = round(sum(accuracies) / len(accuracies) * tests)
    low, high = exact_interval(right, tests)
    plain_bytes = sum(record.get("bytes-up", 0) for record in work.folder.rounds())
    return Price(
        accuracies,
        round(figures[0][1] / work.training, 3) if work.training else None,
        round(figures[0][2] / plain_bytes, 3) if plain_bytes else None,
        low,
        high,
    )
