"""Malicious: any strategy whose victims get another model than the one that is being trained."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor, nn

from fedpriv.state import State
from fedpriv.strategies.wrapper import Wrapper
from fedpriv.wire import record_of, state_in

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """What a server plans with: the architecture, and samples of its own (a test set)."""

    model: nn.Module
    x: Tensor
    y: Tensor
    classes: int


Plant = Callable[[State, Known], State]  # the honest state -> the one that victims get


class Malicious(Wrapper):
    """Sends `plant(state)` to the victims from a round on; everybody else is treated as before.

    `victims` are partitions, all of them when none is given. What the victims answer is kept out of
    the mean, so that the global model stays what honest clients made of it; if all are victims it
    stays as it is.
    """

    def __init__(
        self,
        strategy: Strategy,
        plant: Plant,
        known: Known,
        *,
        from_round: int = 1,
        victims: tuple[int, ...] = (),
        partition: Callable[[int], int] = int,
    ) -> None:
        super().__init__(strategy)
        self.plant, self.known, self.partition = plant, known, partition
        self.from_round, self.victims = from_round, victims
        self._honest: ArrayRecord | None = None

    def is_victim(self, node: int) -> bool:
        return not self.victims or self.partition(node) in self.victims

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(self.inner.configure_train(server_round, arrays, config, grid))
        self._honest = None
        if server_round < self.from_round:
            return messages
        self._honest = arrays
        planted = record_of(self.plant(state_in(arrays), self.known))
        return [
            with_arrays(message, planted)
            if self.is_victim(message.metadata.dst_node_id)
            else message
            for message in messages
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        if self._honest is None:
            return self.inner.aggregate_train(server_round, replies)
        honest = [reply for reply in replies if not self.is_victim(reply.metadata.src_node_id)]
        if honest:
            return self.inner.aggregate_train(server_round, honest)
        _, metrics = self.inner.aggregate_train(server_round, replies)
        return self._honest, metrics


def with_arrays(message: Message, arrays: ArrayRecord) -> Message:
    """The message with other arrays; its other records are shared."""
    replaced = {
        key: arrays if isinstance(value, ArrayRecord) else value
        for key, value in message.content.items()
    }
    about = message.metadata
    return Message(
        RecordDict(replaced), about.dst_node_id, about.message_type, group_id=about.group_id
    )
