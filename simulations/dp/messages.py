"""Flower's own DP as a mechanism: a mod around a client, or a strategy around a mean."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import mod as flower_mods
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy

from fedpriv.errors import BadOption, WorkFailed
from fedpriv.flower import TaskIdentity
from fedpriv.scenario.binding import bound
from fedpriv.simulations.dp.releases import Release, Session
from fedpriv.simulations.dp.worlds import FEW, Update, World
from fedpriv.strategies.catalogue import STRATEGIES
from fedpriv.strategies.roster import Roster
from fedpriv.wire import ARRAYS, CONFIG, EXAMPLES, METRICS, PARTITION, ROUND, record_of, state_in

SERVER, NODE, RUN = 1, 2, 1


def quiet_flower() -> None:
    """Messages can be made outside of a federation; Flower's log of every draw is not wanted."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, SERVER, 1
    logging.getLogger("flwr").setLevel(logging.ERROR)


def record(update: Update) -> ArrayRecord:
    return record_of({k: torch.from_numpy(np.asarray(v)) for k, v in update.items()})


def moved(start: Update, update: Update) -> Update:
    """A model after an update."""
    return {k: (start.get(k, np.zeros_like(v)) + v).astype(v.dtype) for k, v in update.items()}


def content(model: Update, **figures: Any) -> RecordDict:
    return RecordDict({ARRAYS: record(model), METRICS: MetricRecord(figures)})


def parts(records: RecordDict, start: Update) -> dict[str, Any]:
    """What is in a message, by name; arrays as changes of the model that was sent."""
    found: dict[str, Any] = {}
    for arrays in records.array_records.values():
        for name, value in state_in(arrays).items():
            sent, array = start.get(name), value.numpy()
            found[name] = array - sent if sent is not None else array
    for metrics in records.metric_records.values():
        found |= dict(metrics)
    for config in records.config_records.values():
        found |= {k: v for k, v in config.items() if k != ROUND}
    return found


@dataclass(frozen=True)
class ModTarget:
    """A Flower mod around a client that trains in no time; the whole reply is the release."""

    make: Callable[[], Callable[..., Message]]
    name: str
    takes: Literal["update"] = "update"
    fixed: bool = False

    def session(self) -> Session:
        quiet_flower()
        mod = self.make()
        context = Context(RUN, NODE, {PARTITION: 0}, RecordDict(), {})

        def release(world: World, server_round: int) -> Release:
            start = {k: world.start.get(k, np.zeros_like(v)) for k, v in world.updates[0].items()}
            config = ConfigRecord({ROUND: server_round})
            asked = Message(RecordDict({ARRAYS: record(start), CONFIG: config}), NODE, "train")

            def client(message: Message, _: Context) -> Message:
                trained = moved(start, world.updates[0])
                figures = {EXAMPLES: world.counts[0]}
                return Message(content(trained, **figures), reply_to=message)

            reply = mod(asked, context, client)
            if reply.has_error():
                raise WorkFailed(f"the mod answers with an error: {reply.error.reason}")
            return parts(reply.content, start)

        return release


class _Nodes:
    """As much of a Grid as a strategy needs to choose its clients."""

    def __init__(self, clients: int) -> None:
        self.clients = clients

    def get_node_ids(self) -> list[int]:
        return [NODE + i for i in range(self.clients)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Everybody says which partition it holds."""
        return [
            Message(
                RecordDict(
                    {METRICS: MetricRecord({PARTITION: message.metadata.dst_node_id - NODE})}
                ),
                reply_to=message,
            )
            for message in messages
        ]


@dataclass(frozen=True)
class StrategyTarget:
    """A strategy that clips and adds noise; the release is the model that it publishes.

    Whoever sees the published models is the attacker, not the server. The number of clients is
    public: a client that is absent sends an update of zeros.
    """

    make: Callable[[int], Strategy]
    name: str
    takes: Literal["updates"] = "updates"
    fixed: bool = True

    @staticmethod
    def around(found: type[Strategy], options: Mapping[str, Any], name: str) -> "StrategyTarget":
        """Flower's wrapper class around Flower's FedAvg."""

        def make(clients: int) -> Strategy:
            given = {"strategy": FedAvg(fraction_evaluate=0.0, min_train_nodes=1)}
            chosen = {"num-sampled-clients": clients, **options}
            arguments = bound(found, chosen, f"strategy '{name}'", given)
            try:
                return found(**given, **arguments)
            except (TypeError, ValueError) as error:
                raise BadOption(f"strategy '{name}' refuses {dict(options)}: {error}.") from error

        make(FEW + 1)  # refuses bad options before anything is drawn
        return StrategyTarget(make, name)

    def session(self) -> Session:
        quiet_flower()
        strategy = self.make(FEW + 1)

        def release(world: World, server_round: int) -> Release:
            grid = cast(Grid, _Nodes(len(world.updates)))
            config = ConfigRecord({})
            asked = list(strategy.configure_train(server_round, record(world.start), config, grid))
            asked.sort(key=lambda message: message.metadata.dst_node_id)
            replies = [_answer(message, world, at) for at, message in enumerate(asked)]
            arrays, _ = strategy.aggregate_train(server_round, replies)
            if arrays is None:
                raise WorkFailed("the strategy published no model")
            found = parts(RecordDict({ARRAYS: arrays}), world.start)
            # The next round's messages carry a norm that follows the updates.
            following = getattr(strategy, "clipping_norm", None)
            return found if following is None else {**found, "clipping_norm": following}

        return release


def _answer(message: Message, world: World, at: int) -> Message:
    """The reply of a client, behind the mod that the strategy asks for in its message."""

    def client(asked: Message, _: Context) -> Message:
        trained = moved(world.start, world.updates[at])
        return Message(content(trained, **{EXAMPLES: world.counts[at]}), reply_to=asked)

    config = next(iter(message.content.config_records.values()), ConfigRecord({}))
    if "clipping_norm" not in config:
        return client(message, None)  # type: ignore[arg-type]
    context = Context(RUN, message.metadata.dst_node_id, {}, RecordDict(), {})
    answered: Message = flower_mods.adaptiveclipping_mod(message, context, client)
    return answered


def named_strategy(name: str, options: Mapping[str, Any], clients: int) -> Strategy:
    """One of our strategies."""
    return STRATEGIES.build(name, dict(options), roster=Roster(clients), seed=0)
