"""Defences tried where a federation leaks worst, and the price of those that hold."""

from collections.abc import Sequence
from dataclasses import replace

from fedpriv.metrics.rates import LEVEL, SHARE, exact_interval, victims_for
from fedpriv.runfolder import RunFolder
from fedpriv.scenario.built import dataset_of, shares_of
from fedpriv.scenario.sections import spelled
from fedpriv.simulations.audit.battery import Method, shortened, standing
from fedpriv.simulations.audit.cells import Cell, cell_scenario, in_message, planted_messages
from fedpriv.simulations.audit.controls import controlled
from fedpriv.simulations.audit.ladder import (
    Candidate,
    Price,
    Tried,
    candidates,
    judged_defence,
    trained,
)
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.series import SeriesTask, recorded
from fedpriv.simulations.audit.stage import attacked
from fedpriv.simulations.audit.state import Audit
from fedpriv.simulations.audit.work import units_of
from fedpriv.simulations.judging.deciding import decided

DEFENCES = 0.35  # the part of the units that defences have
LOOK = 0.1  # the part of an attack's steps that a first look at a defence takes


def defences(work: Audit) -> None:
    """Each defence against what leaked worst, and the price of those that hold.

    A look with few steps comes first: what leaks to them leaks to all. Then those that are left
    are attacked with all strength, as far as the units go, those first whose battery takes least.
    """
    cell = leaking_cell(work)
    if cell is None:
        work.price_of_own = own_price(work)
        return
    work.where = cell.name
    left = []
    for candidate in candidates(work.scenario, cell):
        if not work.in_time():
            work.untried.append(candidate.name)
            continue
        methods = standing(cell_scenario(candidate.scenario, cell))
        short = [shortened(method, candidate.scenario, LOOK) for method in methods]
        one = judged_defence(candidate, met(work, candidate, cell, work.units, short), work.gates)
        if one.word == "leaks":
            told(work, one)
        else:
            left.append((battery_of(candidate, cell, methods), candidate))
    room = int(DEFENCES * work.units)
    for takes, candidate in sorted(left, key=lambda each: each[0]):
        if takes > room or not work.in_time():
            work.untried.append(candidate.name)
            continue
        found = met(work, candidate, cell, room)
        room -= found.units
        told(work, judged_with_price(work, candidate, cell, found))


def battery_of(candidate: Candidate, cell: Cell, methods: Sequence[Method]) -> int:
    """What all attacks on a defended cell take with all their steps."""
    messages = victims_for(SHARE, LEVEL) + 2 * planted_messages(candidate.scenario, cell)
    samples = in_message(candidate.scenario, cell) or len(shares_of(candidate.scenario)[0])
    each = [units_of(method, candidate.scenario, messages, samples) for method in methods]
    return sum(each)


def met(
    work: Audit, candidate: Candidate, cell: Cell, units: int, only: Sequence[Method] | None = None
) -> Found:
    """A defended cell under attack, with controls unless it was only looked at."""
    place = work.folder.below("defences", candidate.name)
    found = attacked(candidate.scenario, [cell], place, work.means, units, enough=0, only=only)
    return found if only else controlled(found, candidate.scenario, place, work.means)


def judged_with_price(work: Audit, candidate: Candidate, cell: Cell, found: Found) -> Tried:
    """What a defence lets through; the training of one that holds is attacked too, and priced.

    Those who train federations of their own do not attack it: each would take as long as the audit.
    They come when the federation with that defence is audited.
    """
    own = [attack.name for attack in work.means.own]
    one = judged_defence(candidate, found, work.gates, own)
    if one.word != "holds":
        return one
    price = price_of(work, candidate)
    series = SeriesTask(
        candidate.scenario,
        training_of(work, candidate).path,
        work.means.own,
        work.means.metrics,
        work.units,
        work.rounds,
        shadows=False,
    )(work.means.in_time)
    known = judged_defence(candidate, found, work.gates, own, series, work.series.controls)
    return replace(known, price=price)


def told(work: Audit, one: Tried) -> None:
    """Note what became of a defence."""
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


def own_price(work: Audit) -> str:
    """What the plugins cost that the federation has: a training without them, in words."""
    if not work.scenario.plugins or not work.in_time():
        return ""
    plain = Candidate("none", replace(work.scenario, plugins=()), "")
    work.tell("training without its plugins, for what they cost")
    one = trained(plain.scenario, training_of(work, plain), work.rounds, work.in_time, work.told)
    if one is None:
        return ""
    accuracy, seconds, size = one
    last, tests = work.folder.rounds()[-1], len(dataset_of(work.scenario).y_test)
    low, high = exact_interval(round(last["accuracy"] * tests), tests)
    up = sum(record.get("bytes-up", 0) for record in work.folder.rounds())
    return (
        f"No further defence is needed. {' + '.join(map(spelled, work.scenario.plugins))} costs: "
        f"{last['accuracy']:.1%} accuracy instead of {accuracy:.1%} (1 seed, 95 % interval "
        f"{low:.1%} to {high:.1%}), {work.training / seconds:.1f} × the computing time, "
        f"{up / size:.1f} × the bytes."
    )


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
