"""Standalone: nobody shares, every client trains for itself (SPN fig. 7).

Its accuracy is what sharing must beat.
"""

from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid

from fedpriv.strategies.fedavg import FedAvg
from fedpriv.wire import ALONE, METRICS

FIGURES = {"accuracy", "test-loss"}


class Standalone(FedAvg):
    """Every client keeps its own model; the metrics are the mean over clients."""

    shares = False

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        nodes = self.chosen(server_round, self.roster.nodes(grid))
        return self.messages(ALONE, nodes, server_round, arrays, config)

    def why_unfit(self, reply: Message) -> str | None:
        """What is wrong with a reply: there is nothing in it but how well its model does."""
        lacking = FIGURES - reply.content.metric_records[METRICS].keys()
        return f"it does not say its {sorted(lacking)[0]}" if lacking else None

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        contents = [reply.content for reply in replies]
        if not contents:
            return None, None
        return None, self.train_metrics_aggr_fn(contents, self.weighted_by_key)
