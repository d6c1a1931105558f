"""Clients as Ray actors through Flower's backend: warmed once, counted, replaced when one dies."""

import math
import threading
from functools import partial
from typing import Any

import ray
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.backend.raybackend import RayBackend

from clients.app import app as client_app
from fedpriv.errors import BadOption, WorkFailed
from fedpriv.parts import training_samples
from fedpriv.scenario import Scenario


def own_app() -> ClientApp:
    return client_app


def warm(threads: int, scenario: str) -> None:
    """Done once in every actor: threads set, data read, so that no message pays for it."""
    torch.set_num_threads(threads)
    training_samples(Scenario.of({"scenario": scenario}))


class ActorBackend(RayBackend):
    """Flower's Ray backend; callers wait for an idle actor, and a dead one gets a successor."""

    def __init__(self, scenario: Scenario) -> None:
        federation = scenario.federation
        resources: Any = {
            "num_cpus": federation.cpus_per_client,
            "num_gpus": federation.gpus_per_client,
        }
        super().__init__({"client_resources": resources})
        threads = max(1, math.floor(federation.cpus_per_client))
        self.actor_kwargs: dict[str, Any] = {
            "on_actor_init_fn": partial(warm, threads, scenario.text())
        }
        self._idle: threading.Semaphore | None = None

    def build(self, app_fn: Any = own_app) -> None:
        try:
            super().build(app_fn)
        except ValueError as error:
            raise BadOption(
                f"No actor fits this machine: {error} Lower federation.cpus-per-client or "
                "federation.gpus-per-client."
            ) from error
        self._idle = threading.Semaphore(self.num_workers)

    def process_message(self, message: Message, context: Context) -> tuple[Message, Context]:
        assert self._idle is not None and self.pool is not None
        with self._idle:
            try:
                return super().process_message(message, context)
            except ray.exceptions.RayActorError as error:
                self.pool.pool = [actor for actor in self.pool.pool if _lives(actor)]
                while len(self.pool.pool) + len(self.pool._future_to_actor) < self.num_workers:
                    self.pool.pool.append(self.pool.create_actor_fn())
                raise WorkFailed("the client's process died") from error


def _lives(actor: Any) -> bool:
    """Whether an actor still answers; a dead one fails at once."""
    try:
        ray.get(actor.__ray_ready__.remote(), timeout=60)
    except ray.exceptions.RayError:
        return False
    return True
