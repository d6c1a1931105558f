"""Representation sharing: an initiator publishes an encoder, parties share codes, a pool is learned from (ARS 3.3)."""

import logging
from collections.abc import Iterable, Mapping

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedpriv.codes.parties import coder_of, settings, task_labels
from fedpriv.codes.release import Published, Shared
from fedpriv.errors import BadOption, FedprivError, WorkFailed
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import loaded, test_samples
from fedpriv.state import State, state_of
from fedpriv.strategies.fedavg import FedAvg
from fedpriv.strategies.pool import Pool, judged, learned, rows_below
from fedpriv.strategies.roster import Roster
from fedpriv.strategies.rounds import array_bytes
from fedpriv.training import outputs
from fedpriv.wire import ARRAYS, EXAMPLES, METRICS, metrics_of, record_of, state_in, why_unusable

log = logging.getLogger(__name__)


class RepresentationSharing(FedAvg):
    """One round is all of it: encoder, codes, pool. Later rounds share codes again.

    What it returns as the public state is `Published`: encoder, codes and classifiers.
    """

    shares = False  # a reply holds codes, which no mean is taken of

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
        self._grid: Grid | None = None
        self._encoder: State = {}
        self._encoder_bytes = 0

    def check_settings(self) -> None:
        """BadOption for settings that no client could follow."""
        clients = self.scenario.federation.clients
        if self.wanted.initiator >= clients:
            raise BadOption(
                f"representation.initiator is {self.wanted.initiator}, but there are "
                f"{clients} clients, 0 to {clients - 1}."
            )
        if self.scenario.attacks:
            raise BadOption(
                f"[[attacks]] are on updates, and strategy '{self.scenario.federation.strategy}' "
                "shares codes; list attacks on codes under representation.attacks."
            )
        coder_of(self.scenario)
        task_labels(self.scenario)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        self._grid = grid
        published = Published.of(state_in(arrays))
        self._encoder_bytes = 0
        self._encoder = published.encoder or self.encoder(server_round, config, grid)
        nodes = self.chosen(server_round, self.roster.nodes(grid))
        return self.messages("query.codes", nodes, server_round, record_of(self._encoder), config)

    def encoder(self, server_round: int, config: ConfigRecord, grid: Grid) -> State:
        """The encoder of the initiator, or of the next largest party when it fails."""
        expected = state_of(coder_of(self.scenario).encoder(self.wanted.layer))
        if not expected:
            return {}
        for node in self.initiators(grid):
            asked = self.messages(
                "train.encoder", [node], server_round, record_of({}), ConfigRecord(dict(config))
            )
            replies = list(grid.send_and_receive(asked))
            why = why_unusable(replies[0], expected) if replies else "no answer"
            if why is None:
                self._encoder_bytes = array_bytes(replies[0])
                return state_in(replies[0].content[ARRAYS])  # type: ignore[arg-type]
            log.warning("client %d published no encoder: %s", self.roster.partition(node), why)
        raise WorkFailed("No party published an encoder; see the warnings above.")

    def initiators(self, grid: Grid) -> list[int]:
        """The node chosen in the scenario, or all of them, the largest data set first (ARS 3.3)."""
        nodes = self.roster.nodes(grid)
        if self.wanted.initiator >= 0:
            return [n for n in nodes if self.roster.partition(n) == self.wanted.initiator]
        questions = [Message(RecordDict(), node, MessageType.QUERY) for node in nodes]
        sizes = {
            answer.metadata.src_node_id: float(answer.content[METRICS][EXAMPLES])  # type: ignore[arg-type]
            for answer in grid.send_and_receive(questions)
            if not answer.has_error()
        }
        return sorted(sizes, key=lambda node: (-sizes[node], self.roster.partition(node)))

    def received(self, replies: Iterable[Message]) -> dict[int, Shared]:
        """Sound codes by party; unsound ones are left out and named."""
        found: dict[int, Shared] = {}
        for reply in replies:
            party = self.roster.partition(reply.metadata.src_node_id)
            try:
                shared = Shared.of(state_in(reply.content[ARRAYS]))  # type: ignore[arg-type]
                self.check(party, shared)
            except (FedprivError, ValueError, KeyError) as error:
                log.warning("client %d: %s; left out", party, error)
                continue
            found[party] = shared
        if not found:
            raise WorkFailed("No party shared usable codes; see the warnings above.")
        return dict(sorted(found.items()))

    def check(self, party: int, shared: Shared) -> None:
        """WorkFailed unless the codes are of the shape this federation shares, with labels."""
        code = coder_of(self.scenario, party).code(self.wanted.layer)
        if tuple(shared.z.shape[1:]) != code:
            raise WorkFailed(f"codes are {tuple(shared.z.shape[1:])} instead of {code}")
        if shared.y is None or shared.y.shape[1:] != (len(self.wanted.tasks),):
            raise WorkFailed(f"codes need labels of {len(self.wanted.tasks)} tasks")
        _, sizes = task_labels(self.scenario)
        if (shared.y < 0).any() or (shared.y >= torch.tensor(sizes)).any():
            raise WorkFailed("labels lie outside the classes of their tasks")

    def pool(self, parties: Mapping[int, Shared]) -> Pool:
        return rows_below(self.scenario, list(parties.values()))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        if not replies:
            return None, None
        parties = self.received(replies)
        pool = self.pool(parties)
        models = learned(self.scenario, pool)
        figures = judged(models, pool.test, pool.y_test) | self.besides(models)
        tests = sum(shared.test.nbytes + shared.test_ids.nbytes for shared in parties.values())
        figures |= {
            "encoder-bytes": self._encoder_bytes,
            "evaluation-bytes": tests,
            EXAMPLES: len(pool.z),
        }
        if self.wanted.learner == "clients":
            figures |= self.decentralised(server_round, pool)
        published = Published(
            self._encoder, parties, {task: state_of(model) for task, model in models.items()}
        )
        return record_of(published.state()), MetricRecord(figures)  # type: ignore[arg-type]

    def besides(self, models: Mapping[str, torch.nn.Module]) -> dict[str, float]:
        """Accuracy on clean codes, as a party has that uses a classifier on its own samples."""
        encoder = loaded(coder_of(self.scenario).encoder(self.wanted.layer), self._encoder)
        x, _ = test_samples(self.scenario)
        y, _ = task_labels(self.scenario, "test")
        return {"accuracy-clean": judged(models, outputs(encoder, x), y)["accuracy"]}

    def decentralised(self, server_round: int, pool: Pool) -> dict[str, float]:
        """The pool goes to every party, which learns by itself; the mean of what they reach."""
        assert self._grid is not None
        nodes = self.roster.nodes(self._grid)
        arrays = record_of({"z": pool.z, "y": pool.y, "test": pool.test, "test-y": pool.y_test})
        asked = self.messages("train.pool", nodes, server_round, arrays, ConfigRecord())
        replies = [
            reply
            for reply in self._grid.send_and_receive(asked)
            if why_unusable(reply, None) is None
        ]
        if not replies:
            raise WorkFailed("No party learned from the pool; see the clients' messages.")
        reached = [metrics_of(reply.content[METRICS]) for reply in replies]  # type: ignore[arg-type]
        found = {
            f"own-{key}": sum(one[key] for one in reached) / len(reached)
            for key in reached[0]
            if key.startswith("accuracy")
        }
        return found | {"pool-bytes": float(sum(map(array_bytes, asked)))}
