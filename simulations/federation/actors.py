"""Clients as Ray actors through Flower's backend: warmed once, counted, replaced when one dies."""

import logging
import math
import queue
import time
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
from fedpriv.simulations.federation.out_of_memory import answering, free, out_of_memory, ran_out
from fedpriv.simulations.federation.ray_life import check_alive, first_ready, is_lost

log = logging.getLogger(__name__)
SLOW = 60.0  # seconds after which it is said that actors have not started
PATIENCE = 10.0  # seconds in which actors give back memory; one that hangs holds nobody up


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
        answers: Any = partial(answering, app_fn)
        try:
            super().build(answers)
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
        """Until every actor has started: the time that a client has to answer begins then."""
        starting = [actor.__ray_ready__.remote() for actor in self._alive]
        said_at = time.monotonic() + SLOW

        def say() -> None:
            nonlocal said_at
            if time.monotonic() >= said_at:
                said_at = math.inf
                log.warning(
                    "%d of %d Ray workers have not started after %.0f s; the run begins when all "
                    "have. Other work may hold the cluster's cores or GPUs.",
                    len(starting),
                    len(self._alive),
                    SLOW,
                )

        while starting:
            starting.remove(first_ready(starting, say))

    def process_message(self, message: Message, context: Context) -> tuple[Message, Context]:
        partition = str(context.node_config["partition-id"])
        actor = self._idle.get()
        try:
            check_alive()  # a message to a store that is gone ends this process without a word
            answer = actor.run.remote(self.app_fn, message, partition, context)
            _, reply, after = ray.get(first_ready([answer]))
            # What failed leaves nothing behind, so that it can be tried again.
            return reply, context if ran_out(reply) else after
        except ray.exceptions.OutOfMemoryError as error:  # Ray ended it: the machine was full
            check_alive()
            actor = self._successor(actor)
            return out_of_memory(message, str(error).partition("\n")[0]), context
        except ray.exceptions.RayActorError as error:
            check_alive()
            actor = self._successor(actor)
            raise WorkFailed("the client's process died") from error
        finally:
            self._idle.put(actor)

    def make_room(self) -> None:
        """Let all actors give back memory that they keep without need."""
        asked = [actor.__ray_call__.remote(free) for actor in self._alive]
        ray.wait(asked, num_returns=len(asked), timeout=PATIENCE)

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
