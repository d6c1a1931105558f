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

What leaks to the better informed server says nothing. A client of whom it drew a sample is attacked
again, with all steps, by one that is told less: the model after as many first steps as the client
has samples for. This one still sees more than the real server, so that a client holds of whom it
draws nothing. It is asked once: of several servers, each told a little less, one would fail by
chance. Clients whose silence proves nothing, since the attack fails there on planted clients too,
stay where they are. Where a sample is drawn again, the updates themselves are attacked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedpriv.catalogue import METRICS
from fedpriv.clients.catalogue import hides, in_steps
from fedpriv.columns import BLIND
from fedpriv.metrics.gates import Gate
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.scenario.sections import Attack
from fedpriv.simulations.audit.battery import Method, racers, standing
from fedpriv.simulations.audit.cells import Cell, cell_scenario, planted_messages
from fedpriv.simulations.audit.fairness import of_fairness, shown_to_work, unproven
from fedpriv.simulations.audit.probe import Found
from fedpriv.simulations.audit.work import units_of
from fedpriv.simulations.judging.gate import counted
from fedpriv.simulations.judging.outcome import Word, leaked, outcomes
from fedpriv.tables import Row

FEW: Sequence[Word] = ("holds", "undecided")  # what a few clients come out as that leak nothing
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
    return [replace(cell, told=1) for cell in cells]


def told_less(
    scenario: Scenario, cell: Cell, found: Found, own: Sequence[Attack], nodes: int, units: int
) -> tuple[Cell, tuple[Method, ...]] | None:
    """The cell with as many first steps as clients have samples and units have room for.

    With it come the attacks that ran in the told one, with all their steps. None where there is no
    room for two steps. More samples than one pass has would come again.
    """
    chosen, training = cell_scenario(scenario, cell), scenario.training
    full = {one.label: one for one in (*standing(chosen, own), *racers(chosen))}
    methods = tuple(full[one.label] for one in found.methods[cell])
    batch = training.batch_size
    messages = nodes + planted_messages(scenario, cell)
    takes = sum(units_of(method, chosen, messages, batch) for method in methods)
    passes = [training.steps_for(len(share)) for share in shares_of(scenario)]
    held = min(len(share) for share in shares_of(chosen)) // batch
    steps = min(held, min(passes), units // max(1, takes))
    return (replace(cell, told=steps), methods) if steps > 1 else None


def drawn(found: Found, cell: Cell, gates: Sequence[Gate]) -> set[str]:
    """The clients of whom a sample was drawn in a cell."""
    rows = [row for row in counted(found.rows) if row.get("run") == cell.name]
    nodes: set[str] = set()
    for one in outcomes(gates, rows):
        if one.word == "leaks" and one.claim == "sample" and one.bound is not None:
            gate = Gate(one.metric, one.above, one.bound)
            nodes |= {str(row["node"]) for row in gate.measured(rows) if leaked(row, gate)}
    return nodes


def silent(again: Found, gates: Sequence[Gate], less: Cell, nodes: set[str]) -> set[str]:
    """The clients of whom a server that is told less draws nothing, and whose silence says so.

    It says nothing where an attack failed or was cut short, and where none beats a blind guess on
    these very clients, unless one that is as good as the guess beats it on a control.
    """
    if again.missing:
        return set()
    rows = about((row for row in again.rows if str(row["node"]) in nodes), {"sample"})
    asked = [gate for gate in gates if METRICS.build(gate.metric).of == "sample"]
    if any(
        not shown_to_work(one, rows, about(again.controls, {"sample"}))
        for one in unproven(asked, rows, FEW)
    ):
        return set()
    return {str(row["node"]) for row in rows} - drawn(again, less, gates)


def instead(told: Found, cell: Cell, again: Found, nodes: set[str]) -> Found:
    """What was found, with other scores of these clients: by a server that is told less."""
    kept = [
        row for row in told.rows if row.get("run") != cell.name or str(row["node"]) not in nodes
    ]
    new = [{**row, "run": cell.name} for row in again.rows if str(row["node"]) in nodes]
    return replace(told, rows=[*kept, *new], units=told.units + again.units)


def holding(found: Found, gates: Sequence[Gate]) -> set[str]:
    """The kinds of claim that not even the better informed server can make.

    What is missing, or was attacked badly, leaves a kind open.
    """
    if found.missing:
        return set()
    kinds: dict[str, set[str]] = {}
    for one in outcomes(gates, found.rows):
        kinds.setdefault(one.claim, set()).add(one.word)
    return {
        claim
        for claim, words in kinds.items()
        if words == {"holds"}
        and not of_fairness(
            [gate for gate in gates if METRICS.build(gate.metric).of == claim],
            about(found.rows, {claim}),
            about(found.controls, {claim}),
        )
    }


def about(rows: Iterable[Row], kinds: set[str]) -> list[Row]:
    """Scores with the metrics of these kinds of claim, and of none that decides another kind."""
    hidden = {
        end
        for name in METRICS
        if (metric := METRICS.build(name)).decides and metric.of not in kinds
        for end in (name, name + BLIND)
    }
    return [{key: value for key, value in row.items() if key not in hidden} for row in rows]


def merged(told: Found, direct: Found, kinds: set[str]) -> Found:
    """Both stages as one, the told one with the kinds of claim that it decides.

    About these kinds the updates themselves, which nobody searched, count only where they leak. So
    do owners: few updates are too few to tell them by, and all rounds of the training are asked.
    """
    words = {one.claim: one.word for one in outcomes((), direct.rows)}
    asked = {
        claim
        for claim, word in words.items()
        if word == "leaks" or (claim not in kinds and claim != "owner")
    }
    return Found(
        rows=[*about(told.rows, kinds), *about(direct.rows, asked)],
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
    )
