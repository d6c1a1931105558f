"""Round robin: the model goes from client to client, one a round (SPN algorithm 4)."""

from collections.abc import Sequence

from fedpriv.strategies.fedavg import FedAvg


class RoundRobin(FedAvg):
    """One client per Flower round, in partition order; its model is the next one's start."""

    @property
    def patience(self) -> int:  # type: ignore[override]
        """A turn may fail; only a whole lap without an answer ends the run."""
        return self.roster.clients

    def chosen(self, server_round: int, nodes: Sequence[int]) -> list[int]:
        return [nodes[(server_round - 1) % len(nodes)]]
