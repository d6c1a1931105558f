"""Series: what a server saw over all rounds, and what candidates look like in it.

Everything is lazy and computed once, so that several attacks on one series share the work.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fedpriv.engine.gradients import Outer, dense, square
from fedpriv.errors import BadObservation
from fedpriv.evidence.candidates import Candidates
from fedpriv.evidence.observation import Observation
from fedpriv.evidence.victims import Victims, stack
from fedpriv.state import State

MEMORY = 0.5  # gigabytes that the gradients of candidates may take at once


@dataclass(frozen=True, eq=False)
class Series:
    """Updates in order of round and client, and the public model that came of the last round.

    Under secure aggregation there is one update a round, the sum of all clients'.
    """

    updates: tuple[Observation, ...]
    final: State | None = None
    _known: dict[object, Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.updates:
            raise BadObservation("There is no update to look at: nothing was recorded.")

    @property
    def model(self) -> nn.Module:
        model = self.updates[0].model
        if model is None:
            raise BadObservation(
                f"{self.updates[0].name} has no model yet: bind one with observation.on(model)."
            )
        return model

    @property
    def device(self) -> torch.device:
        """Where the updates are."""
        return next(iter(self.updates[0].sent.values())).device

    def unknown(self, last: int) -> Tensor:
        """(R, K, last) of nan, for values of every round and client."""
        shape = (len(self.rounds), len(self.nodes), last)
        return torch.full(shape, math.nan, device=self.device)

    @property
    def rounds(self) -> list[int]:
        return sorted({seen.round for seen in self.updates})

    @property
    def nodes(self) -> list[int | str]:
        """Who sent updates, in order."""
        found = dict.fromkeys(seen.node for seen in self.updates)
        return sorted(found, key=lambda node: str(node).zfill(20))

    def column(self, client: int) -> int:
        """The place of a client among the nodes; of a sum, everybody's is the only one."""
        nodes = self.nodes
        if client in nodes:
            return nodes.index(client)
        if len(nodes) == 1:
            return 0
        raise BadObservation(f"Client {client} sent no update that was recorded.")

    def places(self) -> Iterator[tuple[int, int, Observation]]:
        """Round, client and update, the first two by their places."""
        rounds, nodes = self.rounds, self.nodes
        for seen in self.updates:
            yield rounds.index(seen.round), nodes.index(seen.node), seen

    def models(self) -> list[State]:
        """The public model before each round that was seen, and the last one if it is known."""
        first = {seen.round: seen.sent for seen in reversed(self.updates)}
        found = [first[number] for number in self.rounds]
        return found if self.final is None else [*found, self.final]

    def public_losses(self, about: Candidates) -> Tensor:
        """(T, M) the loss of each candidate under each public model."""
        return self._once(
            ("public", about),
            lambda: torch.stack([losses(self.model, s, about.x, about.y) for s in self.models()]),
        )

    def own_losses(self, about: Candidates) -> Tensor:
        """(R, K, M) the loss under what each client sent back; nan where it did not take part."""

        def computed() -> Tensor:
            found = self.unknown(len(about))
            for r, k, seen in self.places():
                found[r, k] = losses(self.model, seen.received, about.x, about.y)
            return found

        return self._once(("own", about), computed)

    def suspects(self, about: Candidates) -> Tensor:
        """(M,) the places of the suspected clients among the nodes."""
        table = {int(client): self.column(int(client)) for client in about.suspect.unique()}
        places = [table[client] for client in about.suspect.tolist()]
        return torch.tensor(places, device=self.device)

    def suspects_losses(self, about: Candidates) -> Tensor:
        """(R, M) the loss under what a candidate's own suspect sent back; nan without it."""

        def computed() -> Tensor:
            if ("own", about) in self._known:
                known = self._known["own", about]
                places = self.suspects(about).expand(len(known), 1, -1)
                return known.gather(1, places)[:, 0]
            found = self.unknown(len(about))[:, 0]
            who = self.suspects(about)
            for r, k, seen in self.places():
                mine = (who == k).nonzero().flatten()
                if len(mine):
                    found[r, mine] = losses(self.model, seen.received, about.x[mine], about.y[mine])
            return found

        return self._once(("suspect", about), computed)

    def right(self, about: Candidates) -> Tensor:
        """(M,) whether the last public model has the candidate's label right."""
        return self._once(
            ("right", about),
            lambda: logits(self.model, self.models()[-1], about.x).argmax(1) == about.y,
        )

    def products(self, about: Candidates) -> Tensor:
        """(R, K, M) ⟨candidate's gradient, −update⟩ at the model that the client was sent."""
        self._gradients(about)
        return self._known["products", about]

    def squares(self, about: Candidates) -> Tensor:
        """(R, K, M) ‖candidate's gradient‖² at the model that the client was sent."""
        self._gradients(about)
        return self._known["squares", about]

    def shared_squares(self, about: Candidates) -> Tensor:
        """(R, K, M) ‖candidate's gradient‖² over the entries that the client shared."""

        def computed() -> Tensor:
            found = self.unknown(len(about))
            for group in alike(list(self.places())):
                own = where_shared([seen for _, _, seen in group], about.x, about.y)
                for (r, k, _), row in zip(group, own, strict=True):
                    found[r, k] = row
            return found

        return self._once(("shared", about), computed)

    def sizes(self) -> Tensor:
        """(R, K, 1) ‖update‖²."""

        def computed() -> Tensor:
            found = self.unknown(1)
            for r, k, seen in self.places():
                found[r, k] = sum(float(change.square().sum()) for change in seen.delta.values())
            return found

        return self._once("sizes", computed)

    def _gradients(self, about: Candidates) -> None:
        if ("products", about) in self._known:
            return
        products, squares = self.unknown(len(about)), self.unknown(len(about))
        for group in alike(list(self.places())):
            clients = [seen for _, _, seen in group]
            own, size = against(clients, about.x, about.y)
            for (r, k, _), row in zip(group, own, strict=True):
                products[r, k], squares[r, k] = row, size
        self._known["products", about], self._known["squares", about] = products, squares

    def _once(self, key: object, computed: Callable[[], Tensor]) -> Tensor:
        if key not in self._known:
            self._known[key] = computed()
        return self._known[key]


Place = tuple[int, int, Observation]


def alike(places: Sequence[Place]) -> list[list[Place]]:
    """The clients of each round in groups that were sent the same model."""
    groups: list[list[Place]] = []
    for place in places:
        for group in reversed(groups):
            r, _, first = group[0]
            if r == place[0] and same(first.sent, place[2].sent):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def same(one: State, other: State) -> bool:
    return one is other or all(torch.equal(value, other[key]) for key, value in one.items())


def gradients(seen: Observation, x: Tensor, y: Tensor) -> Iterator[dict[str, Tensor | Outer]]:
    """Gradients of the samples, some at a time, at the model that was sent.

    Layers that depend on a batch are in eval mode: a candidate stands alone. Gradients of linear
    layers stay outer products.
    """
    alone = {"mode": "eval", "batch_size": 1, "local_steps": 1, "num_examples": 1}
    victims = stack([replace(seen, **alone)])  # type: ignore[arg-type]
    for part in torch.arange(len(x)).split(chunk_of(victims)):
        found = victims.factors_at(x[part].unsqueeze(1), y[part].unsqueeze(1))
        yield {key: found[key] for key in victims.weights}


def against(clients: Sequence[Observation], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(K, M) ⟨gradient of each sample, −update of each client⟩, and (M,) ‖gradient‖².

    The clients were sent the same model.
    """
    deltas = [seen.delta for seen in clients]
    products, squares = [], []
    for found in gradients(clients[0], x, y):
        targets = {key: -torch.stack([delta[key] for delta in deltas]) for key in found}
        products.append(torch.stack([product(found[key], targets[key]) for key in found]).sum(0))
        squares.append(torch.stack([square(value) for value in found.values()]).sum(0))
    return torch.cat(products, 1).detach(), torch.cat(squares).detach()


def where_shared(clients: Sequence[Observation], x: Tensor, y: Tensor) -> Tensor:
    """(K, M) ‖gradient‖² over the entries that each client shared: those that changed."""
    deltas = [seen.delta for seen in clients]
    sizes = []
    for found in gradients(clients[0], x, y):
        masks = {key: torch.stack([(d[key] != 0).float() for d in deltas]) for key in found}
        sizes.append(
            torch.stack([product(squared(found[key]), masks[key]) for key in found]).sum(0)
        )
    return torch.cat(sizes, 1).detach()


def squared(values: Tensor | Outer) -> Tensor | Outer:
    """The squares of a gradient's entries; of one sample's outer product, that of the squares."""
    if isinstance(values, Outer) and values.rows.shape[1] == 1:
        return Outer(values.rows.square(), values.columns.square())
    return dense(values).square()


def chunk_of(victims: Victims) -> int:
    return min(256, victims.that_fit(MEMORY))  # more at once is slower: caches


def product(values: Tensor | Outer, targets: Tensor) -> Tensor:
    """(K, M) inner products of M gradients with K targets."""
    if isinstance(values, Outer) and values.rows.shape[1] == 1:
        rows, columns = values.rows[:, 0], values.columns[:, 0]
        return torch.stack([((rows @ target) * columns).sum(1) for target in targets])
    return targets.flatten(1) @ dense(values).flatten(1).T


@torch.no_grad()
def logits(model: nn.Module, state: State, x: Tensor, batch: int = 512) -> Tensor:
    """(M, C) what one state of the model says of the samples, in eval mode."""
    model = model.eval()
    return torch.cat([functional_call(model, dict(state), (part,)) for part in x.split(batch)])


def losses(model: nn.Module, state: State, x: Tensor, y: Tensor) -> Tensor:
    """(M,) cross-entropy of each sample under one state of the model, in eval mode."""
    return cross_entropy(logits(model, state, x), y, reduction="none")
