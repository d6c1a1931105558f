"""Curious: sees every exchange before it is aggregated, and changes nothing.

Exchanges are of updates and of codes.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedpriv.screening import said
from fedpriv.strategies.wrapper import Wrapper

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Exchange:
    """One node's part in a round: the message it got and the one it answered with.

    Args:
        round: The server round.
        node: Flower's node id.
        sent: The message that the server sent.
        reply: The message that came back.

    Example:
        >>> from fedpriv import Exchange
        >>> [name for name in Exchange.__dataclass_fields__]
        ['round', 'node', 'sent', 'reply']
    """

    round: int
    node: int  # Flower's node id
    sent: Message
    reply: Message


Observe = Callable[[Exchange], None]


class Curious(Wrapper):
    """Any strategy, with an observer of every exchange.

    It follows the protocol. Whatever goes wrong while observing is logged and touches nothing else.

    Args:
        strategy: The strategy that does the work.
        observe: Called with an Exchange for every reply, before replies are aggregated.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> from fedpriv import Curious, record_to
        >>> strategy = Curious(FedAvg(), record_to("observations/", lr=0.1))
        >>> type(strategy.inner).__name__
        'FedAvg'
    """

    def __init__(self, strategy: Strategy, observe: Observe) -> None:
        super().__init__(strategy)
        self.observe = observe
        self._sent: dict[int, Message] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self._noted(self.inner.configure_train(server_round, arrays, config, grid))

    def configure_more(self, server_round: int, grid: Grid) -> Iterable[Message]:
        return self._noted(super().configure_more(server_round, grid))

    def _noted(self, messages: Iterable[Message]) -> list[Message]:
        messages = list(messages)
        self._sent = {message.metadata.dst_node_id: message for message in messages}
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error() or node not in self._sent:
                continue
            try:
                self.observe(Exchange(server_round, node, self._sent[node], reply))
            except Exception as error:
                why = said(error)
                log.warning("round %d, node %d was not observed: %s", server_round, node, why)
        return self.inner.aggregate_train(server_round, replies)
