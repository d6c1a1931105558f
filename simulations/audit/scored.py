"""The scores of an attack on one cell of an audit, planted clients left out."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from fedpriv.catalogue import METRICS
from fedpriv.columns import BLIND
from fedpriv.evidence.truth import Truth
from fedpriv.metrics.recognition import Recogniser, recogniser
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, test_samples
from fedpriv.simulations.audit.battery import Method
from fedpriv.simulations.audit.cells import together
from fedpriv.simulations.audit.probe import Means, Probe
from fedpriv.simulations.audit.shrinking import shrink
from fedpriv.simulations.judging.judge import judge_of, scores_of
from fedpriv.tables import Row


def scored(probe: Probe, method: Method, scenario: Scenario, means: Means) -> list[Row]:
    """The scores of one attack on a cell, and of its guesses drawn towards the public mean.

    Planted clients are not scored.
    """
    planted = set(probe.planted)
    names = {seen.name for seen in probe.recording.evidence}
    mean = test_samples(probe.scenario)[0].float().mean(dim=0)
    labels = [method.label, shrink(probe.folder, method.label, planted, mean)]
    found = [
        {**row, "batch": probe.cell.said(scenario)}
        for label in labels
        if label
        for row in scores_in(probe, method, label, means, names)
    ]
    return found if together(scenario) == 1 else without_owners(found)


def scores_in(probe: Probe, method: Method, label: str, means: Means, names: set[str]) -> list[Row]:
    """The scores of an attack's claims about those who are named."""
    attack = method.attack()
    judge = judge_of(probe.scenario, [attack], means.metrics)
    judge = replace(judge, recogniser=recogniser_of(probe.scenario))

    def truth_of(name: str) -> Truth | None:
        return probe.folder.truth_of(name) if name in names else None

    rows = scores_of(probe.folder, truth_of, probe.recording, judge, attack, label)
    # A claim about all clients at once says something about planted ones too.
    return by_chance([row for row in rows if f"{row['round']}-{row['node']}" in names], probe)


def recogniser_of(scenario: Scenario) -> Recogniser:
    """Who recognises reconstructions: it knows public samples, the test part of the data."""
    return _recogniser(Scenario(data=scenario.data, seed=scenario.seed).text())


@lru_cache(maxsize=2)
def _recogniser(text: str) -> Recogniser:
    scenario = Scenario.of({"scenario": text})
    dataset, (x, y) = dataset_of(scenario), test_samples(scenario)
    return recogniser(dataset.denormalised(x), y, dataset.classes, scenario.seed)


def by_chance(rows: list[Row], probe: Probe) -> list[Row]:
    """Scores of owners beside the chance of naming one of the clients; a single guess is luck.

    A claim about owners chooses among all clients, also planted ones. Who is traced by
    reconstructions is one of those who were reconstructed.
    """
    everybody = len(probe.recording.evidence) + len(probe.planted)
    traced = len({row["node"] for row in rows})
    for name in (name for name in METRICS if METRICS.build(name).of == "owner"):
        for row in rows:
            if row.get(name + BLIND) is not None:
                row[name + BLIND] = 1 / (everybody if row.get("claim") == "owner" else traced)
    return rows


def without_owners(rows: Sequence[Row]) -> list[Row]:
    """Scores of sums: behind a sum nobody is the owner of a sample."""
    owners = [name for name in METRICS if METRICS.build(name).of == "owner"]
    hidden = {end for name in owners for end in (name, name + BLIND)}
    return [
        {key: value for key, value in row.items() if key not in hidden}
        for row in rows
        if row.get("claim") != "owner"
    ]
