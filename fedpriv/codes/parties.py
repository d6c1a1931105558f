"""What each party of a representation-sharing federation holds: rows or columns of one data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedpriv.catalogue import AUTOENCODERS
from fedpriv.codes.coders import Coder, module_coder
from fedpriv.data.partition import vertical
from fedpriv.errors import BadOption, BadScenario
from fedpriv.registry import accepted
from fedpriv.rng import generator
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import dataset_of, shares_of, test_samples, training_samples
from fedpriv.scenario.sections import Representation
from fedpriv.scenario.sharing import sharing_of

LABEL = "label"


@dataclass(frozen=True)
class Holding:
    """Samples (N, *shape), their numbers in the data set, and the test samples that it encodes."""

    x: Tensor
    ids: Tensor
    x_test: Tensor
    test_ids: Tensor


def settings(scenario: Scenario) -> Representation:
    """The scenario's [representation]."""
    if scenario.representation is None:
        raise BadScenario(
            f"Strategy '{scenario.federation.strategy}' shares codes: the scenario needs a "
            "[representation] section."
        )
    return scenario.representation


def is_vertical(scenario: Scenario) -> bool:
    """Whether a party holds columns of a table, and not rows of all columns."""
    return sharing_of(scenario).columns


def task_labels(scenario: Scenario, part: str = "train") -> tuple[Tensor, tuple[int, ...]]:
    """Labels (N, tasks) of a part of the data, and the classes of each task."""
    columns = [labels_of(scenario, task, part) for task in settings(scenario).tasks]
    return torch.stack([y for y, _ in columns], dim=1), tuple(count for _, count in columns)


def labels_of(scenario: Scenario, task: str, part: str = "train") -> tuple[Tensor, int]:
    """Labels (N,) of one task or attribute, and how many classes it has."""
    dataset = dataset_of(scenario)
    if task == LABEL:
        return (dataset.y_train if part == "train" else dataset.y_test), dataset.classes
    if task not in dataset.attributes:
        raise BadOption(
            f"Data set '{dataset.name}' has no attribute '{task}'; choose from: "
            f"{', '.join([LABEL, *dataset.attributes])}."
        )
    train, test = dataset.attributes[task]
    return (train if part == "train" else test), int(max(train.max(), test.max())) + 1


def columns_of(scenario: Scenario, party: int) -> Tensor:
    """The columns of a party, whoever else takes part (ARS sect. 5.2.4)."""
    dataset, parties = dataset_of(scenario), settings(scenario).parties
    if len(dataset.shape) != 1:
        raise BadOption(
            f"Strategy '{scenario.federation.strategy}' divides the columns of a table; "
            f"'{dataset.name}' has samples of shape {dataset.shape}. Use 'representation', or data "
            "such as 'adult'."
        )
    if scenario.federation.clients > parties:
        raise BadOption(
            f"{scenario.federation.clients} clients cannot hold the columns of {parties} parties; "
            "raise representation.parties or lower federation.clients."
        )
    shares = vertical(dataset.groups or dataset.shape[0], parties)
    return torch.from_numpy(shares[party])


def outsider_rows(scenario: Scenario) -> Tensor:
    """Rows that no party of a vertical federation holds, for its attacker (ARS sect. 5.1.2)."""
    return _rows(scenario)[: settings(scenario).curious_samples]


def _rows(scenario: Scenario) -> Tensor:
    total, spared = len(dataset_of(scenario).y_train), settings(scenario).curious_samples
    if spared >= total:
        raise BadOption(
            f"representation.curious-samples is {spared}, but there are only {total} rows in all."
        )
    return torch.randperm(total, generator=generator(scenario.seed, "rows"))


def holding_of(scenario: Scenario, party: int) -> Holding:
    """Rows of all columns, or, in a vertical federation, some columns of shuffled rows."""
    x, _ = training_samples(scenario)
    x_test, _ = test_samples(scenario)
    if is_vertical(scenario):
        columns, chosen = columns_of(scenario, party), settings(scenario)
        rows = _rows(scenario)[chosen.curious_samples :]
        order = torch.randperm(len(rows), generator=generator(scenario.seed, "order", party))
        ids = rows[order[: round((1 - chosen.missing) * len(rows))]]
        test_ids = torch.randperm(
            len(x_test), generator=generator(scenario.seed, "test-order", party)
        )
        return Holding(x[ids][:, columns], ids, x_test[test_ids][:, columns], test_ids)
    ids = torch.from_numpy(shares_of(scenario)[party])
    test_ids = torch.arange(party, len(x_test), scenario.federation.clients)
    return Holding(x[ids], ids, x_test[test_ids], test_ids)


def coder_of(scenario: Scenario, party: int = 0) -> Coder:
    """The architecture a party encodes with; in a vertical federation each has its own size."""
    chosen = settings(scenario)
    shape = dataset_of(scenario).shape
    if is_vertical(scenario):
        shape = (len(columns_of(scenario, party)),)
    coder = coder_named(chosen.autoencoder, chosen.options, shape)
    coder.checked(chosen.layer)
    return coder


def coder_named(name: str, options: Mapping[str, Any], shape: tuple[int, ...]) -> Coder:
    """The autoencoder of a name: a Coder, or a plain module, which gets a decoder of its own.

    One that takes `shape` is told the shape of a sample.
    """
    takes = accepted(AUTOENCODERS[name].build, ("shape",))
    given = {"shape": shape} if takes else {}

    def build() -> Any:
        return AUTOENCODERS.build(name, options, **given)

    built = build()
    if isinstance(built, Coder):
        return built
    if not isinstance(built, nn.Module):
        raise BadOption(
            f"autoencoder '{name}' must give a torch.nn.Module from samples to codes, or a Coder; "
            f"got {type(built).__name__}."
        )
    coder = module_coder(build, shape)
    try:
        coder.shapes()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise BadOption(
            f"autoencoder '{name}' cannot take samples of shape {shape}: {error}."
        ) from error
    return coder
