"""The rounds of a federation: send, wait, leave out what is unusable, aggregate, evaluate.

Flower's own `Strategy.start` cannot begin at round k and ends the run at the first reply that does
not fit; everything else is asked of the strategy by Flower's own hooks.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedpriv.errors import WorkFailed
from fedpriv.rng import seed_of
from fedpriv.scenario.built import seed_everything
from fedpriv.state import State
from fedpriv.strategies.roster import Roster
from fedpriv.wire import metrics_of, record_of, state_in, why_unusable

log = logging.getLogger(__name__)
Record = dict[str, Any]


class Listener(Protocol):
    """Who wants to know how a run goes."""

    def on_start(self, first: int, last: int) -> None: ...

    def on_round(self, record: Record, state: State) -> bool:
        """A round ended, its checkpoint is not written yet; the answer is whether to go on."""

    def going_on(self) -> bool:
        """Asked within a round: whether to go on. If not, the round is given up."""


@dataclass(frozen=True)
class Federated:
    """What stays the same from round to round."""

    strategy: Strategy
    grid: Grid
    roster: Roster
    seed: int
    evaluate: Callable[[State], Mapping[str, float]]
    min_clients: int = 1
    timeout: float | None = None
    on_round: Callable[[Record, State], bool] = field(default=lambda record, state: True)
    going_on: Callable[[], bool] = field(default=lambda: True)

    @property
    def shares(self) -> bool:
        return getattr(self.strategy, "shares", True)

    def run(self, state: State, rounds: Iterable[int]) -> State:
        """The state after the rounds, or after the one at which `on_round` said stop.

        A round within which `going_on` says stop is given up: nothing of it is in the state.
        WorkFailed when too few clients answer.
        """
        idle = 0
        for server_round in rounds:
            started = time.monotonic()
            done = self.one(server_round, state)
            if done is None:
                break
            state, record = done
            enough = record["clients"] >= min(self.min_clients, record["asked"])
            idle = 0 if enough else idle + 1
            record["seconds"] = round(time.monotonic() - started, 4)
            if idle >= getattr(self.strategy, "patience", 1):
                raise WorkFailed(
                    f"Round {server_round}: {record['clients']} of {record['asked']} clients "
                    f"gave a usable answer, {self.min_clients} are needed. "
                    + " ".join(f"Client {f['client']}: {f['why']}." for f in record["failed"][:3])
                )
            if not self.on_round(record, state):
                break
        return state

    def one(self, server_round: int, state: State) -> tuple[State, Record] | None:
        """One round: the next state and its line for rounds.jsonl; None when it was given up.

        A strategy may have several exchanges in a round: each is sent, screened and aggregated,
        then `configure_more` gives the next.
        """
        try:
            self.roster.nodes(self.grid)
        except WorkFailed:  # a grid that is to stop asks nobody, so that nobody answers
            if self.going_on():
                raise
            return None
        seed_everything(seed_of(self.seed, "server", server_round))  # Flower samples globally
        record: Record = {"round": server_round, "asked": 0, "clients": 0, "failed": []}
        record |= {"bytes-down": 0, "bytes-up": 0}
        messages = list(
            self.strategy.configure_train(server_round, record_of(state), ConfigRecord(), self.grid)
        )
        more = getattr(self.strategy, "configure_more", None)
        while messages:
            good = self.exchanged(messages, state if self.shares else None, record)
            if not self.going_on():  # the grid may have come back without all replies
                return None
            aggregated, metrics = self.strategy.aggregate_train(server_round, good)
            record |= {f"train-{key}": value for key, value in metrics_of(metrics).items()}
            spent = [value for reply in good if (value := epsilon_in(reply)) is not None]
            if spent:
                record["train-epsilon"] = max(spent)
            if aggregated is not None:
                state = state_in(aggregated)
            messages = list(more(server_round, self.grid)) if more is not None else []
        record |= self.evaluated(server_round, state, record)
        return (state, record) if self.going_on() else None

    def exchanged(
        self, messages: list[Message], sent: State | None, record: Record
    ) -> list[Message]:
        """The usable replies to the messages; who failed, and what was sent, goes into the
        record.
        """
        replies = list(self.grid.send_and_receive(messages, timeout=self.timeout))
        good, failed = self.screened(messages, replies, sent)
        for failure in failed:
            log.warning(
                "round %d, client %s: %s", record["round"], failure["client"], failure["why"]
            )
        record["failed"] += failed
        record["bytes-down"] += sum(map(array_bytes, messages))
        record["bytes-up"] += sum(map(array_bytes, good))
        kind = messages[0].metadata.message_type
        if kind == getattr(self.strategy, "main_kind", kind):
            record |= {"asked": len(messages), "clients": len(good)}
        return good

    def screened(
        self, messages: list[Message], replies: list[Message], sent: State | None
    ) -> tuple[list[Message], list[dict[str, Any]]]:
        """Usable replies in partition order, and who failed why."""
        unfit = getattr(self.strategy, "why_unfit", lambda reply: None)
        answers = {reply.metadata.src_node_id: reply for reply in replies}
        good: list[Message] = []
        failed: list[dict[str, Any]] = []
        for node in sorted((m.metadata.dst_node_id for m in messages), key=self.client):
            reply = answers.get(node)
            within = f" within {self.timeout:g} s" if self.timeout else ""
            why: str | None = f"no answer{within}"
            if reply is not None:
                why = why_unusable(reply, sent) or unfit(reply)
            if why is None and reply is not None:
                good.append(reply)
            else:
                failed.append({"client": self.client(node), "why": why})
        return good, failed

    def client(self, node: int) -> int:
        return self.roster.partition(node)

    def evaluated(self, server_round: int, state: State, record: Record) -> Record:
        """Test-set figures of the server, and the clients' own when they keep a split."""
        if not self.shares:
            return {
                "accuracy": record.pop("train-accuracy", 0.0),
                "loss": record.pop("train-test-loss", 0.0),
            }
        figures = dict(self.evaluate(state))
        asked = list(
            self.strategy.configure_evaluate(
                server_round, record_of(state), ConfigRecord(), self.grid
            )
        )
        if asked:
            replies = self.grid.send_and_receive(asked, timeout=self.timeout)
            good = [reply for reply in replies if why_unusable(reply, None) is None]
            own = metrics_of(self.strategy.aggregate_evaluate(server_round, good))
            figures |= {f"client-{key}": value for key, value in own.items()}
        return figures


def array_bytes(message: Message) -> int:
    """What a message's arrays weigh."""
    if not message.has_content():
        return 0
    records: Iterable[ArrayRecord] = message.content.array_records.values()
    return sum(len(array.data) for record in records for array in record.values())


def epsilon_in(reply: Message) -> float | None:
    """The privacy a client says it has spent."""
    value = next(iter(reply.content.metric_records.values())).get("epsilon")
    return float(value) if isinstance(value, int | float) else None
