"""Secure aggregation, the server's side: a grid on which the answers to a round are all one and the
same mean.

Flower 1.39 has SecAgg+ only as a workflow of its older API. SecureGrid runs that workflow's four
stages for the train messages of a round and answers each of them with the mean, so that strategies
need not know.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from flwr.app import ConfigRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import from_numpy

from fedpriv.errors import BadScenario
from fedpriv.flower import (
    MAIN_CONFIGS_RECORD,
    MAIN_PARAMS_RECORD,
    FitIns,
    Key,
    Run,
    SecAggPlusWorkflow,
    WorkflowState,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.state import State, apply
from fedpriv.strategies.catalogue import row_of
from fedpriv.strategies.curious import Exchange, Observe
from fedpriv.strategies.recorder import Recorder
from fedpriv.wire import ARRAYS, CONFIG, EXAMPLES, METRICS, content, state_in

log = logging.getLogger(__name__)
CLIP = 4.0  # updates lie well within
NOT_SUMMED = 452  # the code of an error reply: the client is not in the sum


def check_secagg(scenario: Scenario) -> None:
    """BadScenario for a strategy that has no sum of updates to secure."""
    name = scenario.federation.strategy
    if scenario.federation.secagg and not row_of(scenario).summable:
        raise BadScenario(
            f"federation.secagg adds up the updates of several clients, and strategy '{name}' has "
            "no such sum; use fedavg, or leave secagg out."
        )
    if scenario.federation.secagg and scenario.federation.clients < 2:
        raise BadScenario("federation.secagg needs at least 2 clients: a sum of one hides nothing.")


@dataclass
class Ask:
    """What the workflow wants of a strategy: whom to ask what, and what to do with the sum."""

    nodes: list[int]
    sent: State
    config: dict[str, Any]
    results: list[tuple[Any, Any]] = field(default_factory=list)

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        arrays = [v.numpy() for v in self.sent.values() if v.is_floating_point()]
        asked = FitIns(ndarrays_to_parameters(arrays), self.config)
        return [(SimpleNamespace(node_id=node), asked) for node in self.nodes]

    def aggregate_fit(
        self, server_round: int, results: list[tuple[Any, Any]], failures: Any
    ) -> tuple[None, dict[str, Any]]:
        self.results = results
        return None, {}


class SecureGrid(Grid):
    """A grid that lets a server see sums only; all but train messages pass unchanged."""

    def __init__(self, grid: Grid, heaviest: float) -> None:
        self.grid, self.heaviest = grid, heaviest
        self.errors: dict[int, str] = {}
        self.examples: dict[int, int] = {}  # node -> its examples, of the last sum

    def set_run(self, run: Run) -> None:
        self.grid.set_run(run)

    @property
    def run(self) -> Run:
        return self.grid.run

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        return self.grid.create_message(*arguments, **options)

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self.grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        messages = list(messages)
        if not messages or messages[0].metadata.message_type != MessageType.TRAIN:
            return self.grid.send_and_receive(messages, timeout=timeout)
        return self.summed(messages, timeout)

    def summed(self, messages: list[Message], timeout: float | None) -> list[Message]:
        """The same mean as everybody's answer; an error for those who are not in it."""
        sent = state_in(messages[0].content.array_records[ARRAYS])
        nodes = [message.metadata.dst_node_id for message in messages]
        ask = Ask(nodes, sent, dict(messages[0].content.config_records[CONFIG]))
        self.errors, self.examples = {}, {}
        self.protocol(ask, timeout)
        if not ask.results:
            return [self.refused(message, "there were too few for a sum") for message in messages]
        names = [name for name, value in sent.items() if value.is_floating_point()]
        mean = parameters_to_ndarrays(ask.results[0][1].parameters)
        update = {
            name: from_numpy(value).to(sent[name].dtype)
            for name, value in zip(names, mean, strict=True)
        }
        after = apply(sent, update)
        self.examples = examples = {p.node_id: answer.num_examples for p, answer in ask.results}
        return [
            Message(
                content(after, **{METRICS: MetricRecord({EXAMPLES: examples[node]})}),
                reply_to=message,
            )
            if (node := message.metadata.dst_node_id) in examples
            else self.refused(message, "it did not finish the protocol")
            for message in messages
        ]

    def refused(self, message: Message, why: str) -> Message:
        reason = self.errors.get(message.metadata.dst_node_id, why)
        return Message(Error(NOT_SUMMED, reason), reply_to=message)

    def protocol(self, ask: Ask, timeout: float | None) -> None:
        """Flower's four stages; `ask` has the results unless too few clients came through."""
        clients = len(ask.nodes)
        precision = 2 ** min(26, 31 - clients.bit_length())
        workflow = SecAggPlusWorkflow(
            num_shares=1.0,
            reconstruction_threshold=0.51,
            max_weight=self.heaviest,
            clipping_range=CLIP,
            quantization_range=precision,
            timeout=timeout,
        )
        records = RecordDict(
            {
                MAIN_CONFIGS_RECORD: ConfigRecord(
                    {Key.CURRENT_ROUND: int(ask.config["server-round"])}
                ),
                MAIN_PARAMS_RECORD: content(ask.sent).array_records[ARRAYS],
            }
        )
        context: Any = SimpleNamespace(
            state=records,
            strategy=ask,
            client_manager=SimpleNamespace(num_available=lambda: clients),
            history=SimpleNamespace(add_metrics_distributed_fit=lambda **_: None),
        )
        state = WorkflowState()
        for stage in (
            workflow.setup_stage,
            workflow.share_keys_stage,
            workflow.collect_masked_vectors_stage,
            workflow.unmask_stage,
        ):
            if not stage(Noting(self.grid, self.errors), context, state):  # type: ignore[arg-type]
                return


@dataclass(frozen=True)
class Noting:
    """A grid's one method, with the reasons of those who answer with an error noted."""

    grid: Grid
    errors: dict[int, str]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        replies = list(self.grid.send_and_receive(messages, timeout=timeout))
        for reply in replies:
            if reply.has_error():
                self.errors[reply.metadata.src_node_id] = reply.error.reason or str(
                    reply.error.code
                )
        return replies


def secured(grid: Grid, scenario: Scenario) -> Grid:
    """The grid, behind secure aggregation when the scenario says so."""
    check_secagg(scenario)
    if not scenario.federation.secagg:
        return grid
    logging.getLogger("flwr").setLevel(logging.WARNING)
    return SecureGrid(grid, float(max(len(share) for share in shares_of(scenario))))


@dataclass
class OfSums:
    """An observer that notes a round's sum once, as the update of one client with everybody's
    samples.

    Its node is the number of clients, one past the last partition.
    """

    recorder: Recorder
    grid: SecureGrid
    node: int
    done: int = 0

    def __call__(self, exchange: Exchange) -> None:
        if exchange.round <= self.done or not self.recorder.rounds(exchange.round):
            return
        self.done = exchange.round
        seen = self.recorder.observation(exchange)
        replace(
            seen,
            batch_size=seen.batch_size * len(self.grid.examples),
            num_examples=sum(self.grid.examples.values()),
            node=self.node,
        ).save(self.recorder.folder)


def observer_on(grid: Grid, recorder: Recorder, clients: int) -> Observe:
    """The recorder, or behind secure aggregation one that is not told the same sum many times."""
    return OfSums(recorder, grid, clients) if isinstance(grid, SecureGrid) else recorder
