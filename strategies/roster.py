"""Roster: which node holds which partition. Flower's node ids are random, partitions are not."""

import logging
import time

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedpriv.errors import WorkFailed
from fedpriv.wire import METRICS, PARTITION

log = logging.getLogger(__name__)
ASK_TIMEOUT, SETTLED = 120.0, 8.0
ASK_AGAIN_TIMEOUT = 10.0  # who was silent once must not hold up every round


class Roster:
    """The federation's nodes in partition order; every node is asked once who it is."""

    def __init__(self, clients: int, patience: float = 300.0) -> None:
        self.clients = clients
        self.patience = patience
        self._partitions: dict[int, int] = {}  # node id -> partition
        self._silent: dict[int, str] = {}  # node id -> why it did not say
        self._waited = False

    def partition(self, node: int) -> int:
        """The partition of a node that was asked."""
        return self._partitions[node]

    def nodes(self, grid: Grid) -> list[int]:
        """The node ids that are there now, in partition order."""
        present = self._present(grid)
        unknown = [node for node in present if node not in self._partitions]
        if unknown:
            self._ask(grid, unknown)
        by_partition = {self._partitions[n]: n for n in present if n in self._partitions}
        if not by_partition:
            reasons = " ".join(dict.fromkeys(self._silent.values()))
            raise WorkFailed(
                "No client said which partition it holds; start nodes with a partition-id. "
                f"{reasons}".strip()
            )
        return [node for _, node in sorted(by_partition.items())]

    def _ask(self, grid: Grid, nodes: list[int]) -> None:
        questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        again = all(node in self._silent for node in nodes)
        self._silent |= dict.fromkeys(nodes, "It did not answer.")
        timeout = ASK_AGAIN_TIMEOUT if again else ASK_TIMEOUT
        answers = list(grid.send_and_receive(questions, timeout=timeout))
        for node in set(nodes) - {answer.metadata.src_node_id for answer in answers}:
            log.warning("node %d did not say who it is within %g s", node, timeout)
        for answer in answers:
            node = answer.metadata.src_node_id
            if answer.has_error():
                self._silent[node] = answer.error.reason or f"error {answer.error.code}"
                log.warning("node %d did not say who it is: %s", node, self._silent[node])
            else:
                self._partitions[node] = int(answer.content[METRICS][PARTITION])  # type: ignore[arg-type]

    def _present(self, grid: Grid) -> list[int]:
        """Node ids; the first time, wait until all are there or no more come."""
        present = list(grid.get_node_ids())
        if self._waited or len(present) >= self.clients:
            self._waited = True
            return present
        started = changed = time.monotonic()
        while len(present) < self.clients:
            now = time.monotonic()
            if present and now - changed > SETTLED:
                log.warning(
                    "%d of %d clients are here; going on with them.", len(present), self.clients
                )
                break
            if now - started > self.patience:
                raise WorkFailed(f"No client came within {self.patience:.0f} s.")
            time.sleep(0.5)
            seen = list(grid.get_node_ids())
            changed = now if len(seen) != len(present) else changed
            present = seen
        self._waited = True
        return present
