"""Where virtual clients run: in this process, or as Ray actors through Flower's own backend."""

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from fedpriv.flower import Backend
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import model_of, training_samples
from fedpriv.simulations.federation.ray_start import start_seconds
from fedpriv.strategies.catalogue import row_of
from fedpriv.wire import records_in

TRIES = 4  # measured steps at least; the first one pays for allocations
PATIENCE = 0.1  # seconds in which more steps are tried: on a busy machine most of them are slow
NEVER = 3.0  # saved seconds for which no Ray pays, so that nobody asks what its start costs
BACKEND = "federation.backend"


class InlineBackend(Backend):
    """The same app and messages, one after another in this process."""

    def __init__(self, backend_config: dict[str, Any] | None = None) -> None:
        self.app: ClientApp | None = None

    def build(self, app_fn: Callable[[], ClientApp]) -> None:
        self.app = app_fn()

    @property
    def num_workers(self) -> int:
        return 1

    def is_worker_idle(self) -> bool:
        return True

    def terminate(self) -> None:
        pass

    def process_message(self, message: Message, context: Context) -> tuple[Message, Context]:
        """A client gets records of its own: a strategy may send one record to all of them."""
        assert self.app is not None
        content = RecordDict(dict(message.content))  # copy.copy would share its entries
        for key, record in records_in(message.content, ConfigRecord).items():
            values = {k: [*v] if isinstance(v, list) else v for k, v in record.items()}
            content[key] = ConfigRecord(values, keep_input=False)
        own = Message(content, metadata=message.metadata)  # type: ignore[call-overload]
        return self.app(own, context), context


def step_seconds(scenario: Scenario) -> float:
    """What one training step takes here: the fastest of a few, which others disturb least."""
    model = model_of(scenario)
    x, y = training_samples(scenario)
    x, y = x[: scenario.training.batch_size], y[: scenario.training.batch_size]
    taken: list[float] = []
    until = time.perf_counter() + PATIENCE
    while len(taken) < TRIES or time.perf_counter() < until:
        started = time.perf_counter()
        nn.functional.cross_entropy(model(x), y).backward()
        taken.append(time.perf_counter() - started)
    return min(taken)


def work_seconds(scenario: Scenario) -> float:
    """What training takes on one core, all clients and rounds together."""
    training, federation = scenario.training, scenario.federation
    clients = federation.clients * federation.fraction
    samples = max(1, len(training_samples(scenario)[0]) // federation.clients)
    steps = training.steps_for(samples)
    return step_seconds(scenario) * steps * clients * federation.rounds


def chosen(scenario: Scenario, ray_address: str | None) -> tuple[str, str]:
    """The backend's name, and why it is that one."""
    federation = scenario.federation
    if federation.backend != "auto":
        return federation.backend, f"{BACKEND} says so"
    name, why = by_itself(scenario, ray_address)
    return name, f"{BACKEND} is 'auto', and {why}"


def by_itself(scenario: Scenario, ray_address: str | None) -> tuple[str, str]:
    """What `auto` means: Ray where it saves more time than its start costs on this machine."""
    federation = scenario.federation
    if row_of(scenario).one_at_a_time:
        return "inline", f"{federation.strategy} has one client at a time"
    if ray_address:
        return "ray", "a cluster was named"
    if federation.gpus_per_client != 0 and torch.cuda.is_available():
        return "ray", "clients share GPUs"
    workers = int((os.cpu_count() or 1) / federation.cpus_per_client)
    seconds = work_seconds(scenario)
    saved = seconds * (1 - 1 / max(1, workers))
    if saved < NEVER:
        return "inline", f"about {seconds:.0f} s of training would not pay for Ray's start"
    start, known = start_seconds()
    what = f"{workers} workers save about {saved:.0f} s; Ray's start takes about {start:.0f} s"
    return "ray" if saved > start else "inline", f"{what}, {known}"
