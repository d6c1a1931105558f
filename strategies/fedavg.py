"""FedAvg: the mean of client updates (SPN algorithms 2-3).

The mean is the same to the last bit in whatever order replies come in.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower

from fedpriv.errors import BadOption
from fedpriv.rng import generator
from fedpriv.state import State
from fedpriv.strategies.roster import Roster
from fedpriv.wire import EXAMPLES, ROUND, record_of, records_in, views_in

log = logging.getLogger(__name__)


def weighted_mean(states: Sequence[Mapping[str, torch.Tensor]], weights: Sequence[float]) -> State:
    """Σ wᵢ·stateᵢ / Σ wᵢ in double precision; counters are taken from the first state."""
    total = float(sum(weights))
    result = {}
    for name, first in states[0].items():
        if not first.is_floating_point():
            result[name] = first.clone()
            continue
        mean = sum(
            state[name].double() * (w / total) for state, w in zip(states, weights, strict=True)
        )
        result[name] = mean.to(first.dtype)  # type: ignore[union-attr]
    return result


class FedAvg(flower.FedAvg):
    """Flower's FedAvg that samples by partition from the seed.

    Args:
        roster: Who takes part.
        seed: Seed of the choice of clients.
        fraction: Part of the clients that is asked in each round.
        evaluate_clients: Whether clients evaluate on what they held out.
        weighting: "examples" weighs a client by its number of samples, "plain" takes the plain mean
            (SPN alg. 2).
    """

    shares = True  # whether replies carry a model
    patience = 1  # rounds without a usable answer that end the run

    def __init__(
        self,
        *,
        roster: Roster,
        seed: int,
        fraction: float = 1.0,
        evaluate_clients: bool = False,
        weighting: Literal["examples", "plain"] = "examples",
    ) -> None:
        super().__init__(
            fraction_train=fraction, min_train_nodes=1, min_evaluate_nodes=1, min_available_nodes=1
        )
        if weighting not in ("examples", "plain"):
            raise BadOption(f"weighting must be 'examples' or 'plain', got {weighting!r}.")
        self.roster, self.seed, self.weighting = roster, seed, weighting
        self.evaluate_clients = evaluate_clients

    def chosen(self, server_round: int, nodes: Sequence[int]) -> list[int]:
        """The nodes of this round, a fraction of all, in partition order."""
        count = max(1, round(self.fraction_train * len(nodes)))
        draw = torch.randperm(len(nodes), generator=generator(self.seed, "clients", server_round))
        return [nodes[i] for i in sorted(draw[:count].tolist())]

    def messages(
        self,
        kind: str,
        nodes: Iterable[int],
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
    ) -> list[Message]:
        """One message a node, all with the same content."""
        config[ROUND] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [Message(record, node, kind) for node in nodes]

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        nodes = self.chosen(server_round, self.roster.nodes(grid))
        return self.messages(MessageType.TRAIN, nodes, server_round, arrays, config)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        if not self.evaluate_clients:
            return []
        nodes = self.roster.nodes(grid)
        return self.messages(MessageType.EVALUATE, nodes, server_round, arrays, config)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        contents = [reply.content for reply in replies]
        if not contents:
            return None, None
        weights = self.weights(replies)
        states = [views_in(next(iter(records_in(c, ArrayRecord).values()))) for c in contents]
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return record_of(weighted_mean(states, weights)), metrics

    def weights(self, replies: Sequence[Message]) -> list[float]:
        """What each reply counts for.

        A client with `dp` says 1 sample, whatever it has: the true number is private. Where one
        client does, all count the same, or those who keep theirs private would not count at all.
        """
        counts = [
            float(next(iter(records_in(reply.content, MetricRecord).values()))[EXAMPLES])  # type: ignore[arg-type]
            for reply in replies
        ]
        hidden = [
            self.roster.partition(reply.metadata.src_node_id)
            for reply, count in zip(replies, counts, strict=True)
            if self.weighting == "examples" and count == 1 and max(counts) > 1
        ]
        hidden = [client for client in hidden if self.roster.holds_more_than_one(client)]
        if hidden:
            log.info("clients %s do not say how many samples they have: plain mean", hidden)
        return counts if self.weighting == "examples" and not hidden else [1.0] * len(counts)
