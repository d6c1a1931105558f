"""Clients as Ray actors through Flower's backend: warmed once, counted, replaced when one dies."""

import math
import queue
from collections.abc import Callable
from functools import partial
from typing import Any

import ray
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedpriv.clients.app import app as client_app
from fedpriv.errors import BadOption, WorkFailed
from fedpriv.flower import RayBackend
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import training_samples
from fedpriv.simulations.federation.gpus import gpus_per_client, take_given
from fedpriv.simulations.federation.ray_life import check_alive, first_ready, is_lost


def own_app() -> ClientApp:
    return client_app


def warm(threads: int, scenario: str) -> None:
    """Done once in every actor: device and threads set, data read; no message pays for it."""
    take_given()
    torch.set_num_threads(threads)
    training_samples(Scenario.of({"scenario": scenario}))


class ActorBackend(RayBackend):
    """Flower's Ray backend; callers wait for an idle actor, and a dead one gets a successor."""

    def __init__(self, scenario: Scenario) -> None:
        federation = scenario.federation
        resources: Any = {
            "num_cpus": federation.cpus_per_client,
            "num_gpus": gpus_per_client(scenario),
        }
        super().__init__({"client_resources": resources})
        threads = max(1, math.floor(federation.cpus_per_client))
        self.actor_kwargs: dict[str, Any] = {
            "on_actor_init_fn": partial(warm, threads, scenario.text())
        }
        self._alive: list[Any] = []
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def build(self, app_fn: Any = own_app) -> None:
        try:
            super().build(app_fn)
        except ValueError as error:
            raise BadOption(
                f"No actor fits this machine: {error} Lower federation.cpus-per-client or "
                "federation.gpus-per-client."
            ) from error
        assert self.pool is not None
        self._alive, self._idle = list(self.pool.pool), queue.SimpleQueue()
        for actor in self._alive:
            self._idle.put(actor)

    def wait(self) -> None:
        """Until the first actor is ready to be asked."""
        first_ready([actor.__ray_ready__.remote() for actor in self._alive])

    def process_message(self, message: Message, context: Context) -> tuple[Message, Context]:
        partition = str(context.node_config["partition-id"])
        actor = self._idle.get()
        try:
            check_alive()  # a message to a store that is gone ends this process without a word
            answer = actor.run.remote(self.app_fn, message, partition, context)
            _, reply, after = ray.get(first_ready([answer]))
            return reply, after
        except ray.exceptions.RayActorError as error:
            check_alive()
            actor = self._successor(actor)
            raise WorkFailed("the client's process died") from error
        finally:
            self._idle.put(actor)

    def _successor(self, dead: Any) -> Any:
        """An actor in the place of one that died; none once all were ended on purpose."""
        assert self.pool is not None
        if dead not in self._alive:
            return dead
        ray.kill(dead)
        self._alive.remove(dead)
        make: Callable[[], Any] = self.pool.create_actor_fn
        self._alive.append(make())
        return self._alive[-1]

    def terminate(self) -> None:
        """End every actor, a hanging one too; those of a Ray that is lost have ended."""
        ended, self._alive = self._alive, []
        if is_lost():
            return
        for actor in ended:
            ray.kill(actor)
