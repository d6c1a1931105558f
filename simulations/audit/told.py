"""A server that is told more: each client's model after its first step, besides the update.

An update of many local steps is slow to search, so that an audit could attack few of them. But
whoever can draw a sample from the whole update can also draw it when told more: one may forget what
one was told. So what a better informed server cannot draw, the real one cannot draw either. The
model after the first step is the update of one batch, which is fast to search with all strength.

This needs that later steps carry nothing else of the first batch. So it is done for one pass of
SGD, whose momentum after one step is the step itself, and for plugins that act within single steps
and keep nothing. With Poisson draws, as dp has them, a sample may come again in a later step; what
several steps say of one sample together is not tested, as it is not for several rounds. Batches
are drawn at random, so that the samples of the first one stand for all.

What leaks to the better informed server is no leak of the federation. The share of samples that it
draws bounds what the real server can draw (`judging.indirect`). Where that bound is too large, the
updates themselves are attacked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedpriv.catalogue import METRICS
from fedpriv.clients.catalogue import hides, in_steps
from fedpriv.columns import BLIND
from fedpriv.metrics.gates import Gate
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.simulations.audit.cells import Cell
from fedpriv.simulations.audit.fairness import cells_of, of_fairness
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.judging.indirect import indirect
from fedpriv.simulations.judging.outcome import Outcome, Word, outcomes
from fedpriv.tables import Row

BOUNDED: Sequence[Word] = ("holds", "leaks")  # what may hold: attacks must be known to work
LARGE = 64  # samples: an update of so many, or fewer, is attacked itself


def tellable(scenario: Scenario) -> bool:
    """Whether a server that is told the first step sees more than one that sees the update."""
    training = scenario.training
    sizes = [len(share) for share in shares_of(scenario)]
    samples, fewest = max(sizes), min(sizes)
    drawn = training.steps_for(samples) * training.batch_size
    once = training.local_epochs == 1 if training.local_steps is None else drawn <= fewest
    apart = all(not hides(spec.name) or in_steps(spec.name) for spec in scenario.plugins)
    many = training.steps_for(samples) > 1 and min(drawn, samples) > LARGE
    return (
        many and once and apart and training.optimiser == "sgd" and not scenario.federation.secagg
    )


def told_cells(cells: Iterable[Cell]) -> list[Cell]:
    """The same rounds as a server sees them that is told the first step."""
    return [replace(cell, told=True) for cell in cells]


def holding(found: Found, gates: Sequence[Gate]) -> list[Outcome]:
    """What not even the better informed server can claim, by kind, each with its bound.

    What is missing, or was attacked badly, leaves a kind open.
    """
    if found.missing:
        return []
    kinds: dict[str, list[Outcome]] = {}
    for one in bounded(found, gates):
        kinds.setdefault(one.claim, []).append(one)
    return [
        one
        for claim, asked in kinds.items()
        if {one.word for one in asked} == {"holds"} and fair(found, gates, claim)
        for one in asked
    ]


def bounded(found: Found, gates: Sequence[Gate]) -> list[Outcome]:
    """What its scores say of a server that is told less."""
    cells = list(cells_of(found.rows).values())
    return [indirect(one, cells) for one in outcomes(gates, found.rows)]


def fair(found: Found, gates: Sequence[Gate], claim: str) -> bool:
    """Whether attacks on this kind of claim are known to work in every cell."""
    asked = [gate for gate in gates if METRICS.build(gate.metric).of == claim]
    rows, controls = about(found.rows, {claim}), about(found.controls, {claim})
    return not of_fairness(asked, rows, controls, BOUNDED)


def about(rows: Iterable[Row], kinds: set[str]) -> list[Row]:
    """Scores with the metrics of these kinds of claim, and of none that decides another kind."""
    hidden = {
        end
        for name in METRICS
        if (metric := METRICS.build(name)).decides and metric.of not in kinds
        for end in (name, name + BLIND)
    }
    return [{key: value for key, value in row.items() if key not in hidden} for row in rows]


def merged(
    told: Found, direct: Found, held: Sequence[Outcome], gates: Sequence[Gate] = ()
) -> Found:
    """Both stages as one, the told one with the kinds of claim that it decides.

    About these kinds the updates themselves, which nobody searched, count only where they leak. So
    do owners: few updates are too few to tell them by, and all rounds of the training are asked.
    """
    kinds = {one.claim for one in held}
    found = [*outcomes((), direct.rows), *(outcomes(gates, direct.rows) if gates else ())]
    leaking = {one.claim for one in found if one.word == "leaks"}
    open_yet = {one.claim for one in found} - kinds - {"owner"}
    asked = leaking | open_yet
    return Found(
        rows=about(direct.rows, asked),
        missing=[*told.missing, *direct.missing],
        refused={**told.refused, **direct.refused},
        absent={**told.absent, **direct.absent},
        races={**told.races, **direct.races},
        attacks={**told.attacks, **direct.attacks},
        seconds=told.seconds + direct.seconds,
        units=told.units + direct.units,
        methods={**told.methods, **direct.methods},
        controls=[*told.controls, *direct.controls],
        trials={**told.trials, **direct.trials},
        told=about(told.rows, kinds),
        held=list(held),
    )
