"""Roster: which node holds which partition. Flower's node ids are random, partitions are not.

A SuperLink that authenticates its SuperNodes gives every registered key one node id and keeps it
when the node comes back. So a partition that belongs to a node id belongs to a key.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedpriv.errors import WorkFailed
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.screening import is_number, said, why_not_an_answer
from fedpriv.strategies.exchange import sorted_out
from fedpriv.wire import EXAMPLES, METRICS, PARTITION

log = logging.getLogger(__name__)
ASK_TIMEOUT, SETTLED = 120.0, 8.0
ASK_AGAIN_TIMEOUT = 10.0  # who was silent once must not hold up every round


class Roster:
    """The federation's nodes in partition order; every node is asked once who it is.

    The first node that claims a partition owns it for the whole run. A second claim is refused and
    told. Only while the owner is away may another node stand in for it.

    `sizes` are the samples that each partition has by the scenario: no client counts for more.
    """

    def __init__(
        self, clients: int, patience: float = 300.0, sizes: Sequence[int] | None = None
    ) -> None:
        self.clients, self.patience, self.sizes = clients, patience, sizes
        self._claims: dict[int, int] = {}  # node id -> partition, of every node that said one
        self._owners: dict[int, int] = {}  # partition -> the first node id that claimed it
        self._acting: dict[int, int] = {}  # partition -> the node id that is asked
        self._counts: dict[int, float] = {}  # node id -> the samples it said it has
        self._silent: dict[int, str] = {}  # node id -> why it did not say
        self._asked: set[int] = set()  # nodes that were asked in this round
        self._told: list[dict[str, Any]] = []
        self._waited = False

    def partition(self, node: int) -> int:
        """The partition of a node that was asked."""
        return self._claims[node]

    def knows(self, node: int) -> bool:
        """Whether the node is the one that is asked for its partition."""
        return node in self._claims and self._acting.get(self._claims[node]) == node

    def name(self, node: int) -> int | str:
        """What to call a node: its partition, if it holds one."""
        return self._claims[node] if self.knows(node) else f"node {node}"

    def most(self, node: int) -> float | None:
        """What a node's samples may count for at most; None when nothing is known of it."""
        known = [self._counts[node]] if node in self._counts else []
        if self.sizes is not None and node in self._claims:
            known.append(float(self.sizes[self._claims[node]]))
        return min(known, default=None)

    def holds_more_than_one(self, partition: int) -> bool:
        """Whether a partition is known to have several samples."""
        return self.sizes is not None and self.sizes[partition] > 1

    def tell(self, client: int | str, why: str) -> None:
        """Say something odd of a client: in the log, and in the line of the round."""
        log.warning("client %s: %s", client, why)
        self._told.append({"client": client, "why": why})

    def tell_of(self, failures: Sequence[dict[str, Any]]) -> None:
        """The same of clients that did not say who they are; a reason of many is logged once."""
        reasons: dict[str, list[str]] = {}
        for one in failures:
            why = f"it did not say who it is: {one['why']}"
            reasons.setdefault(why, []).append(str(one["client"]))
            self._told.append({"client": one["client"], "why": why})
        for why, clients in reasons.items():
            more = f" (and {len(clients) - 1} more)" if len(clients) > 1 else ""
            log.warning("client %s%s: %s", clients[0], more, why)

    def told(self) -> list[dict[str, Any]]:
        """What was said since the last time this was asked."""
        found, self._told = self._told, []
        return found

    def new_round(self, grid: Grid) -> None:
        """Ask those again who did not say who they are: once a round, as each may take its time."""
        self._asked.clear()
        self.nodes(grid)

    def nodes(self, grid: Grid) -> list[int]:
        """The node ids that are there now, in partition order."""
        present = self._present(grid)
        unknown = [n for n in present if n not in self._claims and n not in self._asked]
        if unknown:
            self._asked |= set(unknown)
            self._ask(grid, unknown)
        self._settle(present)
        if not self._acting:
            reasons = " ".join(dict.fromkeys(self._silent.values()))
            raise WorkFailed(
                "No client said which partition it holds; start nodes with a partition-id. "
                f"{reasons}".strip()
            )
        return [node for _, node in sorted(self._acting.items())]

    def _settle(self, present: Sequence[int]) -> None:
        """Decide who is asked for each partition: its owner, or a stand-in while that is away."""
        here = set(present)
        before, self._acting = self._acting, {}
        for node, partition in self._claims.items():  # in the order in which they were made
            if node not in here:
                continue
            owner = self._owners[partition]
            if node == owner or (owner not in here and partition not in self._acting):
                self._acting[partition] = node
        for partition, node in sorted(self._acting.items()):
            last = before.get(partition, self._owners[partition])
            if node != last:
                word = "is back" if node == self._owners[partition] else "stands in, as it says so"
                self.tell(partition, f"node {last} is replaced: node {node} {word}")

    def _ask(self, grid: Grid, nodes: list[int]) -> None:
        questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        again = all(node in self._silent for node in nodes)
        timeout = ASK_AGAIN_TIMEOUT if again else ASK_TIMEOUT
        self._silent |= dict.fromkeys(nodes, "It did not answer.")
        began = time.monotonic()
        answers = list(grid.send_and_receive(questions, timeout=timeout))
        whole = time.monotonic() - began >= timeout
        late = f"no answer within {timeout:g} s" if whole else "the wait for it was ended"
        good, failed, odd = sorted_out(questions, answers, self.name, self.why_nobody, late)
        for answer in good:
            self._note(answer)
        for failure, node in failed:
            self._silent[node] = failure["why"]
        self.tell_of([failure for failure, _ in failed])
        for one in odd:
            self.tell(one["client"], one["why"])

    def why_nobody(self, answer: Message) -> str | None:
        """What is wrong with the answer to the question who a node is."""
        why = why_not_an_answer(answer)
        if why is not None:
            return why
        figures = answer.content.metric_records[METRICS]
        partition, count = figures.get(PARTITION), figures.get(EXAMPLES)
        if not is_number(partition) or partition != int(partition):  # type: ignore[arg-type]
            return f"'{PARTITION}' must be a whole number, got {said(repr(partition), 60)}"
        if not 0 <= partition < self.clients:
            return (
                f"'{PARTITION}' is {partition}, and the {self.clients} clients of this federation "
                f"are 0 to {self.clients - 1}"
            )
        if count is not None and (not is_number(count) or count < 0):  # type: ignore[operator]
            return f"'{EXAMPLES}' must be a number from 0 on, got {said(repr(count), 60)}"
        return None

    def _note(self, answer: Message) -> None:
        """Keep who a node says it is; a partition that another node holds stays with that node."""
        node, figures = answer.metadata.src_node_id, answer.content.metric_records[METRICS]
        partition, count = int(figures[PARTITION]), float(figures.get(EXAMPLES, 1))  # type: ignore[arg-type]
        self._claims[node] = partition
        if count != 1:  # a client that keeps its count private says 1
            self._counts[node] = count
        self._silent.pop(node, None)
        owner = self._owners.setdefault(partition, node)
        if owner != node:
            self.tell(
                f"node {node}",
                f"ALARM: it claims partition {partition}, which node {owner} holds; it is refused "
                "while that node is there",
            )
        if self.sizes is not None and count > self.sizes[partition]:
            self.tell(
                partition,
                f"it says it has {count:g} samples, and partition {partition} has "
                f"{self.sizes[partition]}: it counts for no more",
            )

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


def roster_of(scenario: Scenario) -> Roster:
    """A roster that knows how many samples each partition of the scenario has."""
    sizes = [len(share) for share in shares_of(scenario)]
    return Roster(scenario.federation.clients, sizes=sizes)
