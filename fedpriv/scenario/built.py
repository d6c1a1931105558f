"""The parts a scenario names, made once per process: data, the clients' shares, the model."""

import copy
import json
import logging
import random
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from fedpriv.catalogue import DATASETS, MODELS
from fedpriv.data.dataset import Dataset
from fedpriv.data.partition import class_counts, partition
from fedpriv.errors import BadOption
from fedpriv.models.group_norm import group_normalised
from fedpriv.rng import generator, seed_of
from fedpriv.scenario import Scenario
from fedpriv.state import State, state_of

log = logging.getLogger(__name__)


@lru_cache(maxsize=4)
def _dataset(
    name: str, root: str, limit: int | None, tests: int | None, options: str, seed: int
) -> Dataset:
    # Somebody else's data set need not know of folders; it is told of one only where one is named.
    dataset = DATASETS.build(name, json.loads(options), **({"root": root} if root else {}))
    return dataset.limited(limit, seed, tests)


def dataset_of(scenario: Scenario) -> Dataset:
    """The scenario's data, read once per process."""
    data = scenario.data
    options = json.dumps(dict(data.options), sort_keys=True)
    return _dataset(data.name, data.root, data.limit, data.test_limit, options, scenario.seed)


@lru_cache(maxsize=4)
def _prepared(text: str, part: str) -> tuple[Tensor, Tensor]:
    dataset = dataset_of(Scenario.of({"scenario": text}))
    x, y = (
        (dataset.x_train, dataset.y_train) if part == "train" else (dataset.x_test, dataset.y_test)
    )
    return dataset.normalised(x), y


def training_samples(scenario: Scenario) -> tuple[Tensor, Tensor]:
    """All training samples as a model takes them, shared by the clients of this process."""
    return _prepared(_data_text(scenario), "train")


def test_samples(scenario: Scenario) -> tuple[Tensor, Tensor]:
    return _prepared(_data_text(scenario), "test")


def _data_text(scenario: Scenario) -> str:
    """What of a scenario decides its data, so that scenarios of one data set share them."""
    return Scenario(seed=scenario.seed, data=scenario.data).text()


@lru_cache(maxsize=4)
def _shares(text: str, clients: int) -> list[np.ndarray]:
    scenario = Scenario.of({"scenario": text})
    data, seed = scenario.data, scenario.seed
    dataset = dataset_of(scenario)
    kind = "iid" if data.partition == "vertical" else data.partition
    given = np.setdiff1d(np.arange(len(dataset.y_train)), reserved(scenario))
    parts = partition(
        dataset.y_train.numpy()[given],
        clients,
        kind=kind,
        alpha=data.alpha,
        shards_each=data.shards_per_client,
        owners=None if dataset.ids is None else dataset.ids[0].numpy()[given],
        seed=seed_of(seed, "partition"),
    )
    return [given[part] for part in parts]


def reserved(scenario: Scenario) -> np.ndarray:
    """The numbers of the training samples that no client gets, `data.reserve` of them."""
    count, total = scenario.data.reserve, len(dataset_of(scenario).y_train)
    if count >= total:
        raise BadOption(
            f"data.reserve is {count}, but there are only {total} training samples; clients need "
            "some."
        )
    order = torch.randperm(total, generator=generator(scenario.seed, "reserve"))
    return np.sort(order[:count].numpy())


def shares_of(scenario: Scenario, clients: int | None = None) -> list[np.ndarray]:
    """The sample numbers each client holds; the same on every machine for a seed."""
    return _shares(_data_text(scenario), clients or scenario.federation.clients)


def class_table(scenario: Scenario) -> str:
    """Samples per class of every client, as CSV."""
    dataset, shares = dataset_of(scenario), shares_of(scenario)
    counts = class_counts(dataset.y_train.numpy(), shares, dataset.classes)
    lines = [",".join(["client", *(f"class-{c}" for c in range(dataset.classes)), "samples"])]
    for client, row in enumerate(counts):
        lines.append(",".join(map(str, [client, *row, len(shares[client])])))
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=8)
def _template(text: str) -> nn.Module:
    scenario = Scenario.of({"scenario": text})
    dataset = dataset_of(scenario)
    options = dict(scenario.model.options)
    batchnorm = options.pop("batchnorm", "keep")
    if batchnorm not in ("keep", "group"):
        raise BadOption(f"model.batchnorm must be 'keep' or 'group', got {batchnorm!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(scenario.seed, "model"))
        model = MODELS.build(scenario.model.name, options, **dataset.dimensions)
    if batchnorm == "keep":
        return model
    model, replaced = group_normalised(model)
    log.warning("model.batchnorm = 'group': GroupNorm stands for %d BatchNorm layers.", replaced)
    return model


def model_of(scenario: Scenario) -> nn.Module:
    """A fresh copy of the scenario's model with the weights its seed gives."""
    return copy.deepcopy(_template(scenario.text()))


def first_state(scenario: Scenario) -> State:
    """The public state a federation starts from."""
    return state_of(_template(scenario.text()))


def loaded(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    model.load_state_dict(dict(state))
    return model


def seed_everything(seed: int) -> None:
    """Layers such as dropout draw from the global generators only.

    `torch.manual_seed` would also note the call, with its stack, for a CUDA that never starts.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
