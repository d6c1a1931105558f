"""One scenario end to end on this machine or a Ray cluster."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from flwr.app import Context, RecordDict

from fedpriv.errors import BadFolder
from fedpriv.files import write_text
from fedpriv.flower import Backend
from fedpriv.lock import ORPHANS, alone
from fedpriv.progress import Progress, go_on
from fedpriv.runfolder import RunFolder
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import class_table
from fedpriv.simulations.federation.backends import InlineBackend, chosen
from fedpriv.simulations.federation.cluster import cluster, is_running
from fedpriv.simulations.federation.contexts import (
    RUN_ID,
    SEEDED,
    SERVER_NODE,
    contexts_of,
    drop_states,
    load_states,
    save_states,
)
from fedpriv.simulations.federation.exposure import Starts
from fedpriv.simulations.federation.grid import SimulationGrid
from fedpriv.simulations.federation.progress import Show
from fedpriv.simulations.federation.ray_start import remember
from fedpriv.state import State
from fedpriv.strategies.app import RANDOMNESS, server_app
from fedpriv.strategies.rounds import Record

log = logging.getLogger(__name__)
GoingOn = Callable[[Record], bool]


@contextmanager
def backend_of(
    scenario: Scenario, ray_address: str | None = None, insecure_ray: bool = False
) -> Iterator[tuple[Backend, str]]:
    """The backend that runs the scenario's clients, built, and why it is that one."""
    name, why = chosen(scenario, ray_address)
    if name == "inline":
        from fedpriv.clients.app import app

        inline = InlineBackend()
        inline.build(lambda: app)
        yield inline, why
        return
    begun, was_running = time.monotonic(), is_running()
    with cluster(ray_address, insecure=insecure_ray):
        from fedpriv.simulations.federation.actors import ActorBackend  # which imports Ray

        actors = ActorBackend(scenario)
        actors.build()
        actors.wait()  # the first question has a limit, which must not run while actors start
        if ray_address is None and not was_running:
            remember(time.monotonic() - begun)
        yield actors, why


@dataclass
class Keeper:
    """Passes news on to a show, and saves the clients' private state before each checkpoint.

    The starts of the rounds in `keep` are kept in `starts`, so that they can be exposed later.
    `time_for` says after a round whether there is time for another, `progress` at any moment
    whether to go on.
    """

    scenario: Scenario
    folder: RunFolder
    grid: SimulationGrid
    show: Show
    time_for: GoingOn
    progress: Progress
    starts: Starts | None
    keep: frozenset[int]
    done: float = 0.0  # the part of the rounds that have ended

    def going_on(self) -> bool:
        return self.progress(self.done, math.nan)

    def on_start(self, first: int, last: int) -> None:
        write_text(self.folder.partition_file, class_table(self.scenario))
        load_states(self.folder.clients, self.grid.contexts.values(), first - 1)
        self.show.on_start(first, last)

    def on_round(self, record: Record, state: State) -> bool:
        touched = [self.grid.contexts[node] for node in sorted(self.grid.touched)]
        drop_states(self.folder.clients, record["round"] - 1)
        save_states(self.folder.clients, touched, record["round"])
        self.grid.touched.clear()
        self.show.on_round(record)
        self.done = record["round"] / self.scenario.federation.rounds
        going_on, following = self.time_for(record) and self.going_on(), record["round"] + 1
        if self.starts is not None and (following in self.keep or not going_on):
            self.starts.keep(following, state, self.folder.clients)
        return going_on


@alone(patience=ORPHANS)
def simulate(
    scenario: Scenario,
    folder: RunFolder,
    show: Show,
    *,
    resume: bool = False,
    ray_address: str | None = None,
    insecure_ray: bool = False,
    starts: Starts | None = None,
    keep: Iterable[int] = (),
    going_on: GoingOn = lambda record: True,
    progress: Progress = go_on,
) -> RunFolder:
    """Train the scenario's federation into `folder`.

    After every round `going_on` is asked whether there is time for the next. `progress` is asked
    after every reply, and after every batch of a client in this process: when it says stop, the
    round under way is given up and done again later.
    `starts` keeps what the rounds in `keep` start from, and what the next round would when training
    is stopped.
    """
    if resume and not folder.scenario_file.exists():
        raise BadFolder(f"'{folder.path}' holds no run to resume; leave --resume out.")
    logging.getLogger("flwr").setLevel(logging.ERROR)  # importing Flower sets it to DEBUG
    run_config = {"scenario": scenario.text()}
    with backend_of(scenario, ray_address, insecure_ray) as (backend, why):
        log.info("clients run on %s: %s", type(backend).__name__, why)
        contexts = contexts_of(scenario, run_config, folder.truth)
        grid = SimulationGrid(backend, contexts, show.on_reply, lambda: progress(0.0, math.nan))
        context = Context(
            run_id=RUN_ID,
            node_id=SERVER_NODE,
            node_config={},
            state=RecordDict(),
            run_config={
                **run_config,
                "out": str(folder.path),
                "resume": resume,
                RANDOMNESS: SEEDED,
            },
        )
        try:
            with show:
                keeper = Keeper(
                    scenario, folder, grid, show, going_on, progress, starts, frozenset(keep)
                )
                server_app(keeper, simulated=True)(grid, context)
        finally:
            grid.close()
    return folder


def deliberate_threads(cores: int | None = None) -> None:
    """One torch thread: two actors with two threads each are slower than with one."""
    torch.set_num_threads(cores or 1)
