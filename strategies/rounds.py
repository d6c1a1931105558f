"""The rounds of a federation: send, wait, leave out what is unusable, aggregate, evaluate.

Flower's own `Strategy.start` cannot begin at round k and ends the run at the first reply that does
not fit; everything else is asked of the strategy by Flower's own hooks.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedpriv.errors import WorkFailed
from fedpriv.rng import seed_of
from fedpriv.scenario.built import seed_everything
from fedpriv.screening import DELTA, EPSILON, is_number, why_unusable
from fedpriv.state import State
from fedpriv.strategies.exchange import evened, sorted_out
from fedpriv.strategies.roster import Roster
from fedpriv.wire import ALONE, EXAMPLES, METRICS, metrics_of, record_of, records_in, state_in

log = logging.getLogger(__name__)
Record = dict[str, Any]
WEIGHED = (MessageType.TRAIN, MessageType.EVALUATE, MessageType.QUERY, ALONE)  # by num-examples


def said_once(failed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every reason once, with the clients that gave it: `clients 0, 1, 2: …`."""
    reasons: dict[str, list[str]] = {}
    for one in failed:
        reasons.setdefault(str(one["why"]).rstrip("."), []).append(str(one["client"]))
    lines = []
    for why, clients in reasons.items():
        more = f" and {len(clients) - 5} more" if len(clients) > 6 else ""
        shown = ", ".join(clients[:5] if more else clients) + more
        lines.append(f"{'clients' if len(clients) > 1 else 'client'} {shown}: {why}")
    return lines


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
            patience = (getattr(part, "patience", 1) for part in (self.strategy, self.grid))
            if idle >= max(patience):
                raise WorkFailed(
                    f"Round {server_round}: {record['clients']} of {record['asked']} clients "
                    f"gave a usable answer, {self.min_clients} are needed. "
                    + " ".join(f"{line}." for line in said_once(record["failed"])[:3])
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
            self.roster.new_round(self.grid)
        except WorkFailed:  # a grid that is to stop asks nobody, so that nobody answers
            if self.going_on():
                raise
            return None
        seed_everything(seed_of(self.seed, "server", server_round))  # Flower samples globally
        record: Record = {"round": server_round, "asked": 0, "clients": 0, "failed": []}
        record |= {"bytes-down": 0, "bytes-up": 0}
        before, claims = state, set[str]()
        messages = self.known(
            self.strategy.configure_train(server_round, record_of(state), ConfigRecord(), self.grid)
        )
        more = getattr(self.strategy, "configure_more", None)
        while messages:
            good = self.exchanged(messages, state if self.shares else None, record)
            if not self.going_on():  # the grid may have come back without all replies
                return None
            spent = [value for reply in good if (value := epsilon_in(reply)) is not None]
            claims |= claims_in(messages, good)
            aggregated, metrics = self.strategy.aggregate_train(server_round, self.evened(good))
            record |= {f"train-{key}": value for key, value in metrics_of(metrics).items()}
            if spent:
                record["train-epsilon"] = max(spent)
            if aggregated is not None:
                state = state_in(aggregated)
            messages = self.known(more(server_round, self.grid)) if more is not None else []
        record |= getattr(self.strategy, "account", dict)()
        state, figures = self.evaluated(server_round, before, state, record)
        record |= figures
        own = ("client-", "train-own-", f"train-{EPSILON}")
        claims |= {key for key in record if key.startswith(own)}
        if claims & record.keys():
            record["claimed"] = sorted(claims & record.keys())
        if odd := self.roster.told():
            record["odd"] = odd
        return (state, record) if self.going_on() else None

    def known(self, messages: Iterable[Message]) -> list[Message]:
        """The messages to nodes of the roster: somebody else's strategy asks whoever is there."""
        return [m for m in messages if self.roster.knows(m.metadata.dst_node_id)]

    def exchanged(
        self, messages: list[Message], sent: State | None, record: Record
    ) -> list[Message]:
        """The usable replies to the messages; the record gets who failed and what was sent."""
        good, failed = self.answered(messages, sent)
        for line in said_once(failed):
            log.warning("round %d, %s", record["round"], line)
        record["failed"] += failed
        record["bytes-down"] += sum(map(array_bytes, messages))
        record["bytes-up"] += sum(map(array_bytes, good))
        kind = messages[0].metadata.message_type
        if kind == getattr(self.strategy, "main_kind", kind):
            record |= {"asked": len(messages), "clients": len(good)}
        return good

    def answered(
        self, messages: list[Message], sent: State | None
    ) -> tuple[list[Message], list[dict[str, Any]]]:
        """Usable replies in partition order, no heavier than they may be, and who failed why."""
        kind = messages[0].metadata.message_type
        unfit = getattr(self.strategy, "why_unfit", lambda reply: None)

        def why(reply: Message) -> str | None:
            if kind == MessageType.EVALUATE:
                return why_unusable(reply, None)
            return why_unusable(reply, sent) or unfit(reply)

        messages = sorted(messages, key=lambda m: self.roster.partition(m.metadata.dst_node_id))
        replies = list(self.grid.send_and_receive(messages, timeout=self.timeout))
        within = f" within {self.timeout:g} s" if self.timeout else ""
        good, failed, odd = sorted_out(
            messages, replies, self.roster.name, why, f"no answer{within}"
        )
        for one in odd:
            self.roster.tell(one["client"], one["why"])
        for reply in good if kind in WEIGHED else ():
            self.lighten(reply)
        return good, [failure for failure, _ in failed]

    def evened(self, replies: list[Message]) -> Sequence[Message]:
        """The replies with the metrics that all have."""
        return evened(replies, lambda node, why: self.roster.tell(self.roster.name(node), why))

    def lighten(self, reply: Message) -> None:
        """Let a client count for no more samples than it has."""
        node = reply.metadata.src_node_id
        figures, most = records_in(reply.content, MetricRecord)[METRICS], self.roster.most(node)
        count = float(figures[EXAMPLES])  # type: ignore[arg-type]
        if most is not None and count > max(most, 1.0):
            self.roster.tell(
                self.roster.name(node),
                f"'{EXAMPLES}' is {count:g}, and it has {most:g}: it counts for those",
            )
            figures[EXAMPLES] = max(most, 1.0)

    def evaluated(
        self, server_round: int, before: State, state: State, record: Record
    ) -> tuple[State, Record]:
        """The state to go on with, and figures of the server and of clients that keep a split.

        A state without a finite loss would make every client's next answer useless. The one
        before it stays then.
        """
        if not self.shares:
            return state, {
                "accuracy": record.pop("train-accuracy", 0.0),
                "loss": record.pop("train-test-loss", 0.0),
            }
        figures = dict(self.evaluate(state))
        if not all(map(math.isfinite, figures.values())):
            self.roster.tell("all", "their mean has no finite loss; the model before it stays")
            state, figures = before, dict(self.evaluate(before))
        asked = self.known(
            self.strategy.configure_evaluate(
                server_round, record_of(state), ConfigRecord(), self.grid
            )
        )
        if asked:
            good, failed = self.answered(asked, None)
            for failure in failed:
                self.roster.tell(failure["client"], f"evaluation: {failure['why']}")
            own = (
                self.strategy.aggregate_evaluate(server_round, self.evened(good)) if good else None
            )
            account = (EPSILON, DELTA)  # of each client, for all it has sent so far
            figures |= {
                f"client-{key}": value
                for key, value in metrics_of(own).items()
                if key not in account
            }
            spent = [value for reply in good if (value := epsilon_in(reply)) is not None]
            if spent:
                record["train-epsilon"] = max([record.get("train-epsilon", 0.0), *spent])
        return state, figures


def array_bytes(message: Message) -> int:
    """What a message's arrays weigh."""
    if not message.has_content():
        return 0
    records = records_in(message.content, ArrayRecord).values()
    return sum(len(array.data) for record in records for array in record.values())


def claims_in(messages: list[Message], replies: Iterable[Message]) -> set[str]:
    """The keys of a record that repeat what clients say of themselves, which nobody can check."""
    kind = messages[0].metadata.message_type
    names = {key for reply in replies for key in records_in(reply.content, MetricRecord)[METRICS]}
    if kind == ALONE:
        return {f"train-{key}" for key in names} | {"accuracy", "loss"}
    return {f"train-{key}" for key in (names if kind == MessageType.TRAIN else names & {EPSILON})}


def epsilon_in(reply: Message) -> float | None:
    """The privacy a client says it has spent."""
    value = records_in(reply.content, MetricRecord)[METRICS].get(EPSILON)
    return float(value) if is_number(value) else None  # type: ignore[arg-type]
