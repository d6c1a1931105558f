"""Our plugins as a mechanism: a client that trains one round on worst-case samples.

The model is linear and starts at zero, so that a sample's gradient is its own input. The canary's
input is so large that its gradient is always clipped to the full norm; other samples move the bias
alone.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from flwr.app import Context, RecordDict
from torch import nn

from fedpriv.clients.app import trained
from fedpriv.data.dataset import Dataset
from fedpriv.errors import BadOption
from fedpriv.scenario import Scenario, from_tables
from fedpriv.simulations.dp.findings import Claim
from fedpriv.simulations.dp.messages import NODE, RUN, quiet_flower
from fedpriv.simulations.dp.releases import Release, Session
from fedpriv.simulations.dp.worlds import FAR, LATE, OTHERS, Game, Update, World
from fedpriv.wire import PARTITION

INPUTS, CLASSES = 8, 2
OTHER, CANARY, OPPOSITE = 0.0, FAR, -FAR  # the first input of a sample
HERE = "fedpriv.simulations.dp.samples"


def samples(first: str) -> Dataset:
    """Samples of one class whose first inputs are given as JSON, and zeros otherwise."""
    values = torch.tensor(json.loads(first), dtype=torch.float32)
    x = torch.zeros(len(values), INPUTS)
    x[:, 0] = values
    y = torch.zeros(len(values), dtype=torch.long)
    return Dataset("worst case", x, y, x[:1], y[:1], CLASSES)


def linear(channels: int, size: int, classes: int) -> nn.Module:
    """A linear layer of zeros."""
    layer = nn.Linear(channels * size * size, classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def direction() -> Update:
    """The gradient of a canary, of norm 1: both classes' weights of the first input."""
    weight = np.zeros((CLASSES, INPUTS), np.float32)
    weight[:, 0] = (1 / np.sqrt(2), -1 / np.sqrt(2))
    return {"weight": weight}


def world_of(*first: float, batch: int = OTHERS) -> World:
    """Samples by their first input, trained in one batch of an expected size."""
    start = {"weight": np.zeros((CLASSES, INPUTS), np.float32), "bias": np.zeros(2, np.float32)}
    updates = tuple({"first": np.asarray(value)} for value in first)
    return World(start, updates, (batch,))


@dataclass(frozen=True)
class PluginTarget:
    """One of our plugins, by name and options, in a client of its own."""

    plugin: str
    options: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "sample"
    takes: Literal["samples"] = "samples"
    fixed: bool = False

    @property
    def name(self) -> str:
        return self.plugin

    def games(self, claim: Claim) -> Iterator[Game]:
        """One more sample, or another one; for a client, all samples are other ones."""
        others, whole = (OTHER,) * OTHERS, OTHERS + 1
        if claim.unit == "client":
            quiet = world_of(*(OPPOSITE,) * whole, batch=whole)
            loud = world_of(*(CANARY,) * whole, batch=whole)
        elif claim.neighbours == "replace":
            quiet = world_of(*others, OPPOSITE, batch=whole)
            loud = world_of(*others, CANARY, batch=whole)
        else:  # a batch of all samples would be larger with one sample more
            quiet, loud = world_of(*others), world_of(*others, CANARY)
        yield Game("a canary among the samples", (quiet,), (loud,), direction())
        rest = world_of(*others, OTHER, batch=loud.counts[0])
        if claim.unit == "sample" and claim.neighbours == "add-remove":
            same = world_of(*others, OTHER)
            yield Game("one sample more of the same", (quiet,), (same,), direction())
        yield Game("two rounds, the canary in the first", (quiet, rest), (loud, rest), direction())
        late = (1, LATE)
        yield Game("a late round, the canary in it", (rest, quiet), (rest, loud), direction(), late)

    def scenario(self, world: World) -> Scenario:
        first = json.dumps([float(one["first"]) for one in world.updates])
        return from_tables(
            {
                "name": "worst-case",
                "data": {"name": f"{HERE}:samples", "options": {"first": first}},
                "model": {"name": f"{HERE}:linear"},
                "federation": {"clients": 1, "rounds": 1, "backend": "inline", "device": "cpu"},
                "training": {"lr": 1.0, "batch-size": world.counts[0], "local-steps": 1},
                "plugins": [{"name": self.plugin, **self.options}],
            }
        )

    def session(self) -> Session:
        quiet_flower()
        # No seed is given, so that the client draws its secrets from the system.
        node: dict[str, bool | float | int | str] = {PARTITION: 0, "num-partitions": 1}
        context = Context(RUN, NODE, node, RecordDict(), {})

        def release(world: World, server_round: int) -> Release:
            start = {k: torch.from_numpy(v.copy()) for k, v in world.start.items()}
            scenario = Scenario.of({"scenario": _text(self, world)})
            _, update, figures = trained(scenario, start, server_round, context)
            return {**{k: v.cpu().numpy() for k, v in update.items()}, **figures}

        return release


_TEXTS: dict[tuple[Any, ...], str] = {}


def _text(target: PluginTarget, world: World) -> str:
    """The scenario's line, made once for each world."""
    key = (
        target.plugin,
        json.dumps(dict(target.options), sort_keys=True, default=str),
        tuple(float(one["first"]) for one in world.updates),
        world.counts,
    )
    if key not in _TEXTS:
        try:
            _TEXTS[key] = target.scenario(world).text()
        except (TypeError, ValueError) as error:
            raise BadOption(f"plugin '{target.plugin}': {error}.") from error
    return _TEXTS[key]
