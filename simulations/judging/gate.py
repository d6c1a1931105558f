"""Checking gates: whether they can be judged at all, and whether one sample crosses one."""

from collections.abc import Iterable, Sequence

import torch

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadOption, GateCrossed, Undecided
from fedpriv.evidence.claims import CLAIMS
from fedpriv.metrics.gates import Gate
from fedpriv.rng import generator
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.simulations.judging.conditions import row_of, why_not
from fedpriv.simulations.judging.scoring import Judge
from fedpriv.tables import Row, decides

CLASSES = ("labels", "attribute", "owner")  # what of a claim are numbers of classes or clients
SAMPLES = ("sample", "trained", "input")  # what of a claim has the shape of the data


def comparable(scenario: Scenario, attacks: Iterable[str]) -> set[str]:
    """What the judge will be able to compare of the attacks' claims, by the names of Metric.of."""
    names = [name for name in attacks if why_not(name, scenario) is None]
    faces = any("faces" in row_of(name).needs for name in names)
    found: set[str] = set()
    for name in names:
        row = row_of(name)
        given = set(CLAIMS[row.claims].gives)
        if row.sees == "codes":  # guesses in the order of the codes: no label, no owner is claimed
            given -= {"labels", "owner"}
        if "masks" not in row.needs:
            given -= {"mask"}
        found |= given
    if not faces:
        found -= {"faces"}
    return found if Judge(scenario).columns(0) else found - {"categories"}


def check_gates(gates: Sequence[Gate], scenario: Scenario, attacks: Iterable[str]) -> None:
    """BadOption, before anything is trained, for a gate that no attack's claim can be judged by."""
    if not gates:
        return
    shape = dataset_of(scenario).shape
    given = comparable(scenario, attacks)
    for gate in gates:
        metric = METRICS.build(gate.metric)
        if not given:
            raise BadOption(
                f"The gate '{gate}' cannot be checked: the scenario has no attack that can act."
            )
        if metric.of not in given:
            raise BadOption(
                f"The gate '{gate}' cannot be checked: none of the attacks claims what "
                f"'{gate.metric}' compares ({metric.of})."
            )
        if metric.of in SAMPLES and not metric.fits(torch.zeros(1, *shape)):
            raise BadOption(
                f"The gate '{gate}' cannot be checked: '{gate.metric}' does not fit samples of "
                f"shape {shape}."
            )


def check_reachable(gate: Gate, scenario: Scenario) -> None:
    """BadOption for a gate that is not crossed when the private samples themselves come out."""
    metric, shape = METRICS.build(gate.metric), dataset_of(scenario).shape
    if metric.of in SAMPLES:
        stream = generator(0, "reachable")
        truth = torch.rand(2, *shape, generator=stream)
    elif metric.of in CLASSES:
        truth = torch.tensor([0, 1])
    else:
        return
    exact = float(metric(truth, truth)[0])
    if not gate.crossed(exact):
        raise BadOption(
            f"The gate '{gate}' is never crossed: a perfect copy of a sample has {exact:g}, and "
            f"{'high' if metric.leaks == 'high' else 'low'} values of '{gate.metric}' are leaks."
        )


def counted(rows: Iterable[Row]) -> list[Row]:
    """The scores that a verdict may rest on."""
    return [row for row in rows if decides(row.get("by"))]


def check(
    gates: Iterable[Gate],
    rows: Iterable[Row],
    partial: bool = False,
    failed: Sequence[str] = (),
    left_out: int = 0,
) -> None:
    """GateCrossed with the worst victim of the first gate that any one crosses.

    Undecided when nothing was crossed but no score has the metric, a score is not a number, work
    was cut short, an attack failed, or some were left out. Means are never judged.
    """
    rows, gates = counted(rows), list(gates)
    unmeasured = []
    for gate in gates:
        row = gate.worst(rows)
        if row is None:
            unmeasured.append(gate)
        elif gate.crossed(float(row[gate.metric])):
            values = [float(one[gate.metric]) for one in gate.measured(rows)]
            count = sum(map(gate.crossed, values))
            raise GateCrossed(
                f"The gate '{gate}' is crossed by {count} of {len(values)} scores; the worst is "
                f"{float(row[gate.metric]):.2f}: {described(row)}."
            )
    if unmeasured:
        raise Undecided(
            f"The gate '{unmeasured[0]}' cannot be checked: no score has "
            f"'{unmeasured[0].metric}'. It needs attacks that succeed, and the truth that clients "
            "keep."
        )
    doubts = ["the attacks were cut short"] if partial else []
    doubts += [f"{left_out} attacks were left out or cut short"] if left_out else []
    doubts += [f"the attack {name} failed" for name in dict.fromkeys(failed)]
    for gate in gates:
        odd = sum(row.get(gate.metric) not in (None, "") for row in rows) - len(gate.measured(rows))
        doubts += [f"{odd} scores are not a number"] if odd else []
    if gates and doubts:
        raise Undecided(f"The gate '{gates[0]}' was not crossed, but {', and '.join(doubts)}.")


def described(row: Row) -> str:
    """`dlg on client 3 in round 1`, as far as the row says."""
    parts = [("", "attack"), ("on client ", "node"), ("in round ", "round")]
    return " ".join(f"{word}{row[key]}" for word, key in parts if key in row)
