"""Secure aggregation, the server's side: a grid on which every answer to a round is the mean.

Flower 1.39 has SecAgg+ only as a workflow of its older API. SecureGrid runs that workflow's four
stages for the train messages of a round and answers each of them with the mean, so that strategies
need not know.
"""

import logging
from collections.abc import Iterable
from copy import copy
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
    RECORD_KEY_CONFIGS,
    FitIns,
    Key,
    SecAggKey,
    SecAggPlusWorkflow,
    Stage,
    WorkflowState,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from fedpriv.masks import masks_in
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import shares_of
from fedpriv.screening import said
from fedpriv.state import State, apply
from fedpriv.strategies.catalogue import row_of
from fedpriv.strategies.curious import Exchange, Observe
from fedpriv.strategies.exchange import paired, why_of
from fedpriv.strategies.pulling import Through
from fedpriv.strategies.recorder import Recorder
from fedpriv.strategies.stages import same_keys, why_odd_stage
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


def precision(clients: int) -> int:
    """How many integers the clipping range is divided into: so many that no sum overflows."""
    return int(2 ** min(26, 31 - clients.bit_length()))


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


class SecureGrid(Through):
    """A grid that lets a server see sums only; all but train messages pass unchanged."""

    patience = 3  # rounds: one client can spoil a sum, and nobody can tell which one it was

    def __init__(self, grid: Grid, heaviest: float) -> None:
        super().__init__(grid)
        self.heaviest = heaviest
        self.errors: dict[int, str] = {}
        self.examples: dict[int, int] = {}  # node -> its examples, of the last sum

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

    def most_moved(self, norm: float, numbers: int) -> float:
        """How far one client with an update of this norm can move the last mean.

        Clients round what they send to integers, which makes an update a little longer.
        """
        rounding = 2 * CLIP / precision(len(self.examples)) * numbers**0.5
        weights = self.examples.values()
        return float((norm * max(weights) + rounding * self.heaviest) / sum(weights))

    def refused(self, message: Message, why: str) -> Message:
        reason = self.errors.get(message.metadata.dst_node_id, why)
        return Message(Error(NOT_SUMMED, reason), reply_to=message)

    def protocol(self, ask: Ask, timeout: float | None) -> None:
        """Flower's four stages; `ask` has the results unless too few clients came through."""
        clients = len(ask.nodes)
        masks_in(SecAggPlusWorkflow.unmask_stage)
        workflow = SecAggPlusWorkflow(
            num_shares=1.0,
            reconstruction_threshold=max(2, clients // 2 + 1),  # clients refuse half of them
            max_weight=self.heaviest,
            clipping_range=CLIP,
            quantization_range=precision(clients),
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
        shapes = [tuple(v.shape) for v in ask.sent.values() if v.is_floating_point()]
        watched: Any = Screened(self.grid, self.errors, shapes, self.heaviest)
        for stage in (workflow.setup_stage, workflow.share_keys_stage):
            if not stage(watched, context, state):
                return
            # Who left before it shared keys has no mask in the sum, and needs none taken out.
            state.sampled_node_ids = set(state.active_node_ids)
        if workflow.collect_masked_vectors_stage(watched, context, state):
            self.unmask(workflow, watched, context, state, ask)

    def unmask(
        self,
        workflow: SecAggPlusWorkflow,
        watched: "Screened",
        context: Any,
        state: WorkflowState,
        ask: Ask,
    ) -> None:
        """Take the masks out of the sum; `ask` has the results if that gives numbers that can be.

        A wrong share of a key gives a wrong mask, and numbers all over the range. Shares are more
        than are needed: each client's are left out in turn, until the sum is one.
        """
        replies: list[Message] | None = None
        for without in (None, *sorted(state.active_node_ids)):
            grid: Any = watched if replies is None else Again(replies, without)
            copied = copy(state)
            copied.nid_to_neighbours = {n: set(v) for n, v in state.nid_to_neighbours.items()}
            ask.results = []
            try:
                workflow.unmask_stage(grid, context, copied)
            except Exception as error:  # shares are bytes that a client chose
                log.warning("the sum cannot be unmasked: %s: %s", type(error).__name__, said(error))
            replies = watched.last
            if ask.results and self.possible(ask):
                if without is not None:
                    log.warning("node %d: its shares of the others' keys are wrong", without)
                return
        ask.results = []
        self.errors |= dict.fromkeys(ask.nodes, "there is no sum: a client sent wrong numbers")

    def possible(self, ask: Ask) -> bool:
        """Whether a mean can be one of updates that were cut to the clipping range."""
        total = sum(answer.num_examples for _, answer in ask.results)
        bound = CLIP * max(1.0, len(ask.results) * self.heaviest / total)
        mean = parameters_to_ndarrays(ask.results[0][1].parameters)
        return all(bool((abs(part) <= bound * 1.001).all()) for part in mean)


@dataclass
class Screened:
    """A grid's one method; a reply that does not fit its stage becomes an error with a reason."""

    grid: Grid
    errors: dict[int, str]
    shapes: list[tuple[int, ...]]
    heaviest: float
    last: list[Message] = field(default_factory=list)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        messages = list(messages)
        asked = {message.metadata.dst_node_id: message for message in messages}
        replies, odd = paired(
            messages, list(self.grid.send_and_receive(messages, timeout=timeout)), int
        )
        for one in odd:
            log.warning("node %s: %s", one["client"], one["why"])
        whys = {
            node: why_of(reply, lambda r, n=node: why_odd_stage(asked[n], r, *self.limits))  # type: ignore[misc]
            for node, reply in replies.items()
        }
        if stage_of(messages) == Stage.SETUP:
            good = {node: reply for node, reply in replies.items() if whys[node] is None}
            whys |= dict.fromkeys(same_keys(good), "its public key is another client's, too")
        self.errors |= {node: why for node, why in whys.items() if why is not None}
        self.last = [
            reply if whys[node] is None else left_out(asked[node], whys[node])
            for node, reply in replies.items()
        ]
        return self.last

    @property
    def limits(self) -> tuple[list[tuple[int, ...]], float]:
        return self.shapes, self.heaviest


@dataclass(frozen=True)
class Again:
    """A grid that gives the replies it was given, but for those of one node."""

    replies: list[Message]
    without: int | None

    def send_and_receive(self, messages: Iterable[Message], **_: Any) -> list[Message]:
        return [reply for reply in self.replies if reply.metadata.src_node_id != self.without]


def stage_of(messages: list[Message]) -> object:
    """The stage of the protocol that messages belong to."""
    config = messages[0].content.config_records[RECORD_KEY_CONFIGS]
    return config[SecAggKey.STAGE]


def left_out(message: Message, why: str | None) -> Message:
    return Message(Error(NOT_SUMMED, why or ""), reply_to=message)


def secured(grid: Grid, scenario: Scenario) -> Grid:
    """The grid, behind secure aggregation when the scenario says so."""
    check_secagg(scenario)
    if not scenario.federation.secagg:
        return grid
    logging.getLogger("flwr").setLevel(logging.ERROR)
    return SecureGrid(grid, float(max(len(share) for share in shares_of(scenario))))


@dataclass
class OfSums:
    """An observer that notes a round's sum once, as one client's update on everybody's samples.

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
        self.recorder.keep(
            replace(
                seen,
                batch_size=seen.batch_size * len(self.grid.examples),
                num_examples=sum(self.grid.examples.values()),
                node=self.node,
            )
        )


def observer_on(grid: Grid, recorder: Recorder, clients: int) -> Observe:
    """The recorder, or behind secure aggregation one that is not told the same sum many times."""
    return OfSums(recorder, grid, clients) if isinstance(grid, SecureGrid) else recorder
