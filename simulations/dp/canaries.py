"""A data set with canaries: samples that are easy to recognise, each in or out by its own coin."""

import json
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from fedpriv.catalogue import DATASETS
from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadOption
from fedpriv.rng import generator

HERE = "fedpriv.simulations.dp.canaries"


@dataclass(frozen=True)
class Canaries:
    """All canaries, which of them are in, and the client that each belongs to if it is in."""

    x: Tensor  # (m, *shape), as the data set stores samples
    y: Tensor  # (m,)
    inside: Tensor  # (m,) bool
    owner: Tensor  # (m,)


def drawn_canaries(base: Dataset, count: int, kind: str, clients: int, seed: int) -> Canaries:
    """Test samples with a wrong label, or pictures of noise with any label."""
    draw = generator(seed, "canaries")
    if not 20 <= count <= len(base.y_test):
        raise BadOption(
            f"canaries must be between 20 and {len(base.y_test)}, the test samples that they are "
            f"made of, got {count}."
        )
    chosen = torch.randperm(len(base.y_test), generator=draw)[:count]
    x, y = base.x_test[chosen].clone(), base.y_test[chosen]
    shift = torch.randint(1, base.classes, (count,), generator=draw)
    if kind == "noise":
        noise = torch.rand(x.shape, generator=draw)
        x = (noise.round() * 255).to(torch.uint8) if x.dtype == torch.uint8 else noise
    inside = torch.rand(count, generator=draw) < 0.5
    return Canaries(x, (y + shift) % base.classes, inside, torch.arange(count) % clients)


def untouched(base: Dataset, count: int, seed: int) -> Tensor:
    """Which test samples no canary was made of."""
    return torch.randperm(len(base.y_test), generator=generator(seed, "canaries"))[count:]


@lru_cache(maxsize=4)
def base_of(name: str, options: str, root: str | None) -> Dataset:
    return DATASETS.build(name, json.loads(options), **({"root": root} if root else {}))


def with_canaries(
    base: str,
    count: int,
    kind: str,
    clients: int,
    draw: int,
    options: str = "{}",
    root: str | None = None,
) -> Dataset:
    """The data set `base` with the canaries that are in; test samples that became canaries are
    left out of the test.
    """
    data = base_of(base, options, root)
    canaries = drawn_canaries(data, count, kind, clients, draw)
    inside = canaries.inside
    rest = untouched(data, count, draw)
    if not len(rest):
        rest = torch.arange(len(data.y_test))
    owners = torch.randperm(len(data.y_train), generator=generator(draw, "owners")) % clients
    return replace(
        data,
        x_train=torch.cat([data.x_train, canaries.x[inside]]),
        y_train=torch.cat([data.y_train, canaries.y[inside]]),
        x_test=data.x_test[rest],
        y_test=data.y_test[rest],
        attributes={},
        ids=(torch.cat([owners, canaries.owner[inside]]), torch.zeros(len(rest)).long()),
    )
