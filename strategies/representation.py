"""Representation sharing: parties share codes instead of updates (ARS 3.3).

An initiator publishes an encoder, parties share codes, and all learn from the pool of codes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedpriv.codes.parties import coder_of, settings, task_labels
from fedpriv.codes.release import Published, Shared
from fedpriv.errors import BadOption, FedprivError, WorkFailed
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import loaded, test_samples
from fedpriv.screening import why_unusable
from fedpriv.state import State, state_of
from fedpriv.strategies.codes import Expected, why_odd_codes
from fedpriv.strategies.fedavg import FedAvg
from fedpriv.strategies.pool import Pool, judged, learned, rows_below
from fedpriv.strategies.roster import Roster
from fedpriv.training import outputs
from fedpriv.wire import (
    ARRAYS,
    CODES,
    ENCODER,
    EXAMPLES,
    METRICS,
    POOL,
    metrics_of,
    record_of,
    state_in,
)

Aggregate = tuple[ArrayRecord | None, MetricRecord | None]


class RepresentationSharing(FedAvg):
    """One round is all of it: encoder, codes, pool. Later rounds share codes again.

    A round has several exchanges: who holds how much, the encoder, the codes, and the pool when
    parties learn by themselves. Each one is sent, screened and observed by the round loop, which
    asks `configure_more` for the next. The public state is the encoder and the classifiers.
    """

    shares = False  # a reply holds codes, which no mean is taken of
    main_kind = CODES  # the exchange whose clients are counted

    def __init__(
        self,
        *,
        roster: Roster,
        seed: int,
        scenario: Scenario,
        fraction: float = 1.0,
        evaluate_clients: bool = False,
    ) -> None:
        super().__init__(roster=roster, seed=seed, fraction=fraction)
        self.scenario, self.wanted = scenario, settings(scenario)
        self.check_settings()
        self._encoder: State = {}
        self._initiators: list[int] = []
        self._next: list[Message] = []
        self._then: Callable[[Sequence[Message]], Aggregate] = self.shared

    def check_settings(self) -> None:
        """BadOption for settings that no client could follow."""
        clients = self.scenario.federation.clients
        if self.wanted.initiator >= clients:
            raise BadOption(
                f"representation.initiator is {self.wanted.initiator}, but there are "
                f"{clients} clients, 0 to {clients - 1}."
            )
        coder_of(self.scenario)
        task_labels(self.scenario)

    # What the round loop asks for.

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        self._round, self._nodes = server_round, self.roster.nodes(grid)
        self._encoder = Published.of(state_in(arrays)).encoder
        if self._encoder or not self.expected():
            return self.ask_codes()
        if self.wanted.initiator >= 0:
            chosen = [n for n in self._nodes if self.roster.partition(n) == self.wanted.initiator]
            self._initiators = chosen
            return self.ask_encoder()
        self._then = self.sized
        return [Message(RecordDict(), node, MessageType.QUERY) for node in self._nodes]

    def configure_more(self, server_round: int, grid: Grid) -> list[Message]:
        """The next exchange of this round, none when it is over."""
        found, self._next = self._next, []
        return found

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Aggregate:
        return self._then(list(replies))

    def why_unfit(self, reply: Message) -> str | None:
        """What is wrong with a reply of the exchange under way, in words."""
        if self._then == self.encoded:
            return why_unusable(reply, self.expected())
        if self._then == self.learned_apart:
            return self.why_no_figures(reply)
        if self._then != self.shared:
            return None
        if list(reply.content.array_records) != [ARRAYS]:
            return "it carries no codes"
        party = self.roster.partition(reply.metadata.src_node_id)
        record = reply.content.array_records[ARRAYS]
        why = why_odd_codes(record, Expected.of(self.scenario, party, self.encoder_of(party)))
        if why is not None:
            return why
        try:
            self.check(party, Shared.of(state_in(record)))
        except FedprivError as error:
            return str(error)
        return None

    def why_no_figures(self, reply: Message) -> str | None:
        """What is wrong with the answer of a party that learned by itself."""
        figures = reply.content.metric_records[METRICS]
        lacking = [task for task in self.wanted.tasks if f"accuracy-{task}" not in figures]
        return f"it does not say how accurate it is on '{lacking[0]}'" if lacking else None

    # The exchanges, in order.

    def sized(self, replies: Sequence[Message]) -> Aggregate:
        """The party with most samples is asked for an encoder first (ARS 3.3)."""
        sizes = {
            reply.metadata.src_node_id: float(reply.content[METRICS][EXAMPLES])  # type: ignore[arg-type]
            for reply in replies
        }
        self._initiators = sorted(
            sizes, key=lambda node: (-sizes[node], self.roster.partition(node))
        )
        self._next = self.ask_encoder()
        return None, None

    def ask_encoder(self) -> list[Message]:
        if not self._initiators:
            raise WorkFailed("No party published an encoder; see the warnings above.")
        self._then = self.encoded
        node = self._initiators.pop(0)
        return self.messages(ENCODER, [node], self._round, record_of({}), ConfigRecord())

    def encoded(self, replies: Sequence[Message]) -> Aggregate:
        """The encoder is known, or the next largest party is asked for one."""
        if replies:
            self._encoder = state_in(replies[0].content[ARRAYS])  # type: ignore[arg-type]
            self._next = self.ask_codes()
        else:
            self._next = self.ask_encoder()
        return None, None

    def ask_codes(self) -> list[Message]:
        self._then = self.shared
        nodes = self.chosen(self._round, self._nodes)
        return self.messages(CODES, nodes, self._round, record_of(self._encoder), ConfigRecord())

    def shared(self, replies: Sequence[Message]) -> Aggregate:
        """Classifiers are learned from everybody's codes."""
        parties = {
            self.roster.partition(reply.metadata.src_node_id): Shared.of(
                state_in(reply.content[ARRAYS])  # type: ignore[arg-type]
            )
            for reply in replies
        }
        if not parties:
            raise WorkFailed("No party shared usable codes; see the warnings above.")
        pool = self.pool(dict(sorted(parties.items())))
        models = learned(self.scenario, pool)
        figures = judged(models, pool.test, pool.y_test) | self.besides(models)
        tests = sum(shared.test.nbytes + shared.test_ids.nbytes for shared in parties.values())
        figures |= {"evaluation-bytes": tests, EXAMPLES: len(pool.z)}
        if self.wanted.learner == "clients":
            self._next = self.ask_to_learn(pool)
        learnt = {task: state_of(model) for task, model in models.items()}
        return record_of(Published(self._encoder, learnt).state()), MetricRecord(figures)  # type: ignore[arg-type]

    def ask_to_learn(self, pool: Pool) -> list[Message]:
        """The pool goes to every party, which learns by itself."""
        self._then = self.learned_apart
        arrays = record_of({"z": pool.z, "y": pool.y, "test": pool.test, "test-y": pool.y_test})
        return self.messages(POOL, self._nodes, self._round, arrays, ConfigRecord())

    def learned_apart(self, replies: Sequence[Message]) -> Aggregate:
        """The mean of what the parties reach by themselves."""
        if not replies:
            raise WorkFailed("No party learned from the pool; see the clients' messages.")
        reached = [metrics_of(reply.content[METRICS]) for reply in replies]  # type: ignore[arg-type]
        found = {
            f"own-accuracy-{task}": sum(one[f"accuracy-{task}"] for one in reached) / len(reached)
            for task in self.wanted.tasks
        }
        return None, MetricRecord(found)  # type: ignore[arg-type]

    # What a vertical federation does in its own way.

    def expected(self) -> State:
        """The encoder's weights by name and shape; empty when samples are shared as they are."""
        return state_of(coder_of(self.scenario).encoder(self.wanted.layer))

    def encoder_of(self, party: int) -> State:
        """The encoder that a party publishes beside its codes; empty here, where all have one."""
        return {}

    def check(self, party: int, shared: Shared) -> None:
        """WorkFailed unless the codes come with labels of the tasks."""
        if shared.y is None:
            raise WorkFailed(f"codes need labels of {len(self.wanted.tasks)} tasks")
        self.check_labels(shared.y)

    def check_labels(self, y: torch.Tensor) -> None:
        """WorkFailed for a label that is no class of its task."""
        _, sizes = task_labels(self.scenario)
        if (y < 0).any() or (y >= torch.tensor(sizes)).any():
            raise WorkFailed("labels lie outside the classes of their tasks")

    def pool(self, parties: Mapping[int, Shared]) -> Pool:
        return rows_below(self.scenario, list(parties.values()))

    def besides(self, models: Mapping[str, torch.nn.Module]) -> dict[str, float]:
        """Accuracy on clean codes, as a party has that uses a classifier on its own samples."""
        encoder = loaded(coder_of(self.scenario).encoder(self.wanted.layer), self._encoder)
        x, _ = test_samples(self.scenario)
        y, _ = task_labels(self.scenario, "test")
        return {"accuracy-clean": judged(models, outputs(encoder, x), y)["accuracy"]}
