"""Learning from a pool of codes: one classifier a task, on the server (ARS eq. 6, sect. 5.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedpriv.codes.parties import settings, task_labels
from fedpriv.codes.pool import learn
from fedpriv.codes.release import Shared, pooled, side_by_side
from fedpriv.metrics.labels import f1, mcc
from fedpriv.rng import generator, seed_of
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import seed_everything
from fedpriv.training import outputs


@dataclass(frozen=True)
class Pool:
    """Codes and labels (N, tasks) to learn from, and codes of test samples with theirs."""

    z: Tensor
    y: Tensor
    test: Tensor
    y_test: Tensor


def rows_below(scenario: Scenario, parties: Sequence[Shared]) -> Pool:
    """The pool of a horizontal federation: every party encoded its part of the test set."""
    z, y = pooled(parties)
    labels, _ = task_labels(scenario, "test")
    ids = torch.cat([shared.test_ids for shared in parties])
    return Pool(z, y, torch.cat([shared.test for shared in parties]), labels[ids])


def columns_beside(scenario: Scenario, parties: Mapping[int, Shared]) -> Pool:
    """The pool of a vertical federation: rows that all parties have, aligned by id (ARS 4.4.2)."""
    shared = [parties[party] for party in sorted(parties)]
    z, where = side_by_side([p.z for p in shared], [p.ids for p in shared if p.ids is not None])
    test, test_where = side_by_side([p.test for p in shared], [p.test_ids for p in shared])
    labels, _ = task_labels(scenario, "test")
    labelled = [(p.y, place) for p, place in zip(shared, where, strict=True) if p.y is not None]
    y, place = labelled[0]
    assert y is not None
    return Pool(z, y[place], test, labels[shared[0].test_ids[test_where[0]]])


def learned(scenario: Scenario, pool: Pool) -> dict[str, nn.Module]:
    """A classifier for each task, all from one pool (ARS sect. 5.4)."""
    chosen = settings(scenario)
    _, sizes = task_labels(scenario)
    found = {}
    for number, task in enumerate(chosen.tasks):
        seed_everything(seed_of(scenario.seed, "pool", task))
        draw = generator(scenario.seed, "pool", "batches", task)
        found[task] = learn(pool.z, pool.y[:, number], sizes[number], chosen, draw=draw)
    return found


def judged(models: Mapping[str, nn.Module], z: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy, F1, MCC of each task and their means over tasks, and the loss."""
    figures: dict[str, float] = {}
    losses = []
    for number, (task, model) in enumerate(models.items()):
        logits, truth = outputs(model, z), y[:, number]
        classes = logits.shape[1]
        losses.append(float(cross_entropy(logits, truth)))
        figures |= {
            f"accuracy-{task}": float((logits.argmax(dim=1) == truth).double().mean()),
            f"f1-{task}": f1(logits, truth, classes),
            f"mcc-{task}": mcc(logits, truth, classes),
        }
    for name in ("accuracy", "f1", "mcc"):
        values = [figures[f"{name}-{task}"] for task in models]
        figures[name] = sum(values) / len(values)
    return figures | {"test-loss": sum(losses) / len(losses)}
