"""A table of a scenario's variants: what each learned, and what leaked from its codes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fedpriv.catalogue import DATASETS, METRICS
from fedpriv.codes.release import Published
from fedpriv.columns import BLIND
from fedpriv.metrics.faces import faces_like
from fedpriv.metrics.features import lda_score, scatter
from fedpriv.metrics.labels import f1, mcc, rate_equal
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of
from fedpriv.scenario.sections import spelled
from fedpriv.simulations.judging.conditions import FACES, faces_of, row_of
from fedpriv.simulations.judging.knowledge import curious_party, noise_settings, oracle
from fedpriv.simulations.judging.pareto import points_in, write_pareto
from fedpriv.tables import Row

LEARNED = ("accuracy", "train-accuracy-clean", "train-f1", "train-mcc")


def summarised(rows: Mapping[str, Mapping[str, Any]], folder: RunFolder) -> list[Row]:
    """One row for each variant and attack. A variant that nobody attacked has one row."""
    found: list[Row] = []
    for name, result in rows.items():
        place = folder.below(name) if name else folder
        scenario, record = place.scenario(), result["rounds"][-1]
        if result.get("scores") and scenario.representation is not None:
            learned: Row = {
                key.removeprefix("train-"): record[key] for key in LEARNED if key in record
            }
            learned["bytes"] = bytes_of(record)
            learned |= identities(scenario, place)
            about = {"run": name, "plugins": " + ".join(map(spelled, scenario.plugins)) or "none"}
            targets = targets_of(scenario)
            found += [about | learned | row for row in leaked(result["scores"], targets)]
            continue
        own = [value for key, value in record.items() if key.startswith("train-own-accuracy")]
        row = {"run": name, "accuracy": record["accuracy"]}
        row["bytes"] = sum(map(bytes_of, result["rounds"]))
        found.append(row | ({"own-accuracy": sum(own) / len(own)} if own else {}))
    return found


def targets_of(scenario: Scenario) -> dict[str, int]:
    """The class that noise pulls each private attribute towards."""
    noise = noise_settings(scenario)
    return {name: noise.target(i) for i, name in enumerate(noise.private)} if noise else {}


def leaked(scores: Sequence[Row], targets: Mapping[str, int] | None = None) -> list[Row]:
    """One row an attack: for every metric the mean over victims of the mean over their samples."""
    targets = targets or {}
    columns = [name for metric in METRICS for name in (metric, metric + BLIND)]
    found = []
    for attack in dict.fromkeys(row["attack"] for row in scores):
        parties: dict[Any, list[Row]] = {}
        for row in scores:
            if row["attack"] == attack:
                parties.setdefault(row["node"], []).append(row)
        each = [
            means(rows, columns) | attribute_figures(rows, targets) for rows in parties.values()
        ]
        keys = dict.fromkeys(key for one in each for key in one)
        known = {key: [one[key] for one in each if key in one] for key in keys}
        mean = {key: sum(values) / len(values) for key, values in known.items()}
        found.append({"attack": attack, **mean})
    return found


def means(rows: Sequence[Row], columns: Sequence[str]) -> dict[str, float]:
    known = [name for name in (*columns, "seconds") if name in rows[0]]
    return {name: sum(float(row[name]) for row in rows) / len(rows) for name in known}


def attribute_figures(rows: Sequence[Row], targets: Mapping[str, int]) -> dict[str, float]:
    """F1 and MCC where an attribute was read.

    For one that noise pulls towards a class also `rate-r`, how often the attacker says that class
    (ARS fig. 7).
    """
    if "guess" not in rows[0]:
        return {}
    guess, truth = (torch.tensor([int(row[key]) for row in rows]) for key in ("guess", "truth"))
    classes = int(max(guess.max(), truth.max())) + 1
    target = targets.get(str(rows[0].get("attribute", "")))
    pulled = {} if target is None else {"rate-r": rate_equal(guess, target)}
    return {
        "attribute-f1": f1(guess, truth, max(2, classes)),
        "attribute-mcc": mcc(guess, truth, max(2, classes)),
        **pulled,
    }


def identities(scenario: Scenario, folder: RunFolder) -> Row:
    """How far persons are apart in codes: S_w, S_b and the LDA score (ARL table 3)."""
    if all("faces" not in row_of(attack.name).needs for attack in scenario.attacks):
        return {}
    network = faces_of(scenario)
    faces = DATASETS.build(FACES, {}, root=scenario.data.root or None)
    dataset = dataset_of(scenario)
    x = dataset.normalised(faces_like(faces, dataset.shape))
    encoder = Published.of(folder.checkpoint_state()).encoder
    query = oracle(scenario, curious_party(scenario), encoder)
    labels = torch.cat([faces.y_train, faces.y_test])
    codes = query(x)
    within, between = scatter(codes, labels)
    return {
        "within": within,
        "between": between,
        "lda": lda_score(codes, labels),
        "verifier-accuracy": network.accuracy,
    }


def bytes_of(record: Mapping[str, Any]) -> float:
    """All that was sent to learn something; codes of test samples only measure it."""
    total: float = record["bytes-up"] + record["bytes-down"]
    found: float = total - record.get("train-evaluation-bytes", 0)
    return found


def write_summary(folder: RunFolder, rows: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """summary.csv, and the picture of all attacked variants, which the report shows.

    Nothing where no variant shares codes.
    """
    places = [folder.below(name) if name else folder for name in rows]
    if all(place.scenario().representation is None for place in places):
        return []
    found = summarised(rows, folder)
    folder.write_summary(found)
    if len(points_in([folder.path])) > 1:
        write_pareto([folder.path], folder)
    return found
