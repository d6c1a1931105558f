"""Victims: observations of one model side by side, the only way an attack touches the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import grad

from fedpriv import device
from fedpriv.engine.explicit import Explicit
from fedpriv.engine.gradients import (
    Gradients,
    as_trained,
    dense,
    gradient_by_autograd,
    gradients_at,
    loss_at,
    per_victim,
    soft,
)
from fedpriv.engine.memory import bytes_per_victim, rows_that_fit
from fedpriv.engine.replay import batches, replayed, step_rule
from fedpriv.engine.trusted import explicit_engine
from fedpriv.errors import BadObservation
from fedpriv.evidence.observation import Observation, check_finite, check_fits, mean_gradient
from fedpriv.state import State

_OF_ONE_VICTIM = ("round", "node", "num_examples")  # an evaluation needs none of them


@dataclass(frozen=True, eq=False)
class Victims:
    """V observations that one evaluation can serve; every tensor's leading axis is the victim.

    `weights` and `buffers` have that axis only if the server sent different models (`shared` is
    False), as in round robin. `each` are the observations, row by row. They agree in all facts but
    `round`, `node` and `num_examples`, and in the number of slots. `facts` is the first of them:
    read from it what they agree in.
    """

    model: nn.Module
    weights: State
    buffers: State
    shared: bool
    delta: State
    names: tuple[str, ...]
    facts: Observation
    engine: Explicit | None = None
    each: tuple[Observation, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def device(self) -> torch.device:
        """Where all of their tensors are."""
        return next(iter(self.delta.values())).device

    @property
    def slots(self) -> int:
        """How many samples of each victim its update can depend on."""
        return slots_of(self.facts)

    @cached_property
    def gradient(self) -> State:
        """(V, …) per parameter: as Observation.gradient."""
        delta = {key: self.delta[key] for key in self.weights}
        return mean_gradient(self.facts, delta, self.weights)

    def that_fit(self, gigabytes: float) -> int:
        """How many victims, restarts counted, one evaluation may hold; never less than one.

        `gigabytes` are for the CPU; an accelerator has room for what its memory still takes.
        """
        return rows_that_fit(device.room(self.device, gigabytes), self.bytes_each())

    def bytes_each(self) -> int:
        """An upper estimate of what one victim takes during an evaluation."""
        facts = self.facts
        return bytes_per_victim(
            self.model,
            facts.input_shape,
            weights=sum(value.numel() for value in facts.sent.values()),
            slots=self.slots,
            steps=1 if self.engine is not None else 2 * facts.local_steps,
        )

    def rows(self, index: Sequence[int] | Tensor) -> Self:
        """The victims at `index`; one that is repeated is attacked several times."""
        index = torch.as_tensor(index, dtype=torch.long)
        picked = {key: value[index] for key, value in self.delta.items()}
        names = tuple(self.names[i] for i in index.tolist())
        weights, buffers = self.weights, self.buffers
        if not self.shared:
            weights = {key: value[index] for key, value in weights.items()}
            buffers = {key: value[index] for key, value in buffers.items()}
        return replace(
            self,
            delta=picked,
            names=names,
            weights=weights,
            buffers=buffers,
            engine=None if self.engine is None else self.engine.rows(index),
            each=tuple(self.each[i] for i in index.tolist() if self.each),
        )

    def factors_at(self, x: Tensor, y: Tensor) -> Gradients:
        """As `gradient_at`, with linear layers as outer products where the fast engine has them."""
        t = soft(y, self.facts.classes)
        if self.engine is not None:
            return self.engine.gradients_at(x, t)
        return gradients_at(self.model, self.weights, self.buffers, self.shared, x, t)

    def gradient_at(self, x: Tensor, y: Tensor) -> State:
        """The gradients that inputs `x` (V, B, …) and labels `y` would give; differentiable.

        y: class indices (V, B) or logits (V, B, C).
        """
        return {key: dense(values) for key, values in self.factors_at(x, y).items()}

    def update_at(self, x: Tensor, y: Tensor) -> State:
        """The deltas that local training on the slots `x` (V, n, …), `y` gives; differentiable."""
        facts, t, alone = self.facts, soft(y, self.facts.classes), len(x) == 1

        def one(weights: State, buffers: State, x: Tensor, t: Tensor) -> State:
            step = step_rule(
                facts.optimiser, facts.lr, facts.momentum, facts.weight_decay, facts.nesterov
            )

            def gradient(w: State, slots: Tensor) -> State:
                if alone:
                    return gradient_by_autograd(self.model, w, buffers, x[slots], t[slots])
                found: State = grad(lambda q: loss_at(self.model, q, buffers, x[slots], t[slots]))(
                    w
                )
                return found

            order = batches(len(x), facts.batch_size, facts.local_steps)
            after = replayed(weights, gradient, step, order)
            return {key: after[key] - value for key, value in weights.items()}

        return per_victim(one, self.weights, self.buffers, self.shared, x, t)


def stack(observations: Sequence[Observation], fast: bool = True) -> Victims:
    """Observations with the same model and facts as victims; `fast` allows the explicit engine."""
    if not observations:
        raise BadObservation("no observation to attack: the list is empty.")
    first = observations[0]
    model = first.model
    if model is None:
        raise BadObservation(f"{first.name} has no model yet: bind one with observation.on(model).")
    for seen in observations:
        check_fits(seen, model)
        check_finite(seen)
        own = needed(seen)
        unlike = [key for key, value in needed(first).items() if value != own[key]]
        if unlike:
            raise BadObservation(
                f"{seen.name} and {first.name} differ in {', '.join(unlike)}: attack them apart "
                "(fedpriv.evidence.victims.alike sorts them)."
            )
    which = sets_of(observations)
    shared = max(which) == 0
    where = next((value.device for value in first.sent.values()), device.CPU)
    client = as_trained(model, first.mode).to(where)
    check_runs(first, client)
    params = [key for key, _ in client.named_parameters()]
    buffers = [key for key, value in client.named_buffers() if value.is_floating_point()]

    def sent(keys: list[str]) -> State:
        if shared:
            return {key: first.sent[key].float() for key in keys}
        return {key: torch.stack([seen.sent[key].float() for seen in observations]) for key in keys}

    deltas = [seen.delta for seen in observations]
    victims = Victims(
        model=client,
        weights=sent(params),
        buffers=sent(buffers),
        shared=shared,
        delta={key: torch.stack([delta[key] for delta in deltas]) for key in deltas[0]},
        names=tuple(seen.name for seen in observations),
        facts=first,
        each=tuple(observations),
    )
    if not fast:
        return victims
    weights, buffer, shape = victims.weights, victims.buffers, first.input_shape
    if shared:
        return replace(victims, engine=explicit_engine(client, weights, buffer, shape))
    firsts = [which.index(number) for number in range(max(which) + 1)]
    weights, buffer = (
        {key: value[firsts] for key, value in state.items()} for state in (weights, buffer)
    )
    engine = explicit_engine(client, weights, buffer, shape, torch.tensor(which, device=where))
    return replace(victims, engine=engine)


def slots_of(seen: Observation) -> int:
    """How many samples of this client its update can depend on."""
    return min(seen.num_examples, seen.local_steps * seen.batch_size)


def needed(seen: Observation) -> dict[str, object]:
    """The facts that victims must agree in so that one evaluation serves them all."""
    facts = {key: value for key, value in seen.facts.items() if key not in _OF_ONE_VICTIM}
    return {**facts, "slots": slots_of(seen)}


def sets_of(observations: Sequence[Observation]) -> list[int]:
    """A number per observation, the same for those who were sent the same model, from 0."""
    distinct: list[State] = []
    which = []
    for seen in observations:
        known = (i for i in range(len(distinct) - 1, -1, -1) if _same(seen.sent, distinct[i]))
        number = next(known, len(distinct))
        if number == len(distinct):
            distinct.append(seen.sent)
        which.append(number)
    return which


def check_runs(seen: Observation, client: nn.Module) -> None:
    """BadObservation unless the model takes the inputs, gives the classes, and has our loss."""
    if seen.loss != "cross-entropy":
        raise BadObservation(
            f"{seen.name} was trained with the loss '{seen.loss}'; attacks know 'cross-entropy'."
        )
    kind = type(client).__name__
    try:
        with torch.no_grad():
            shape = tuple(client(torch.zeros(2, *seen.input_shape, device=device.of(client))).shape)
    except (RuntimeError, ValueError, IndexError, AttributeError) as error:
        raise BadObservation(
            f"{kind} does not take inputs of the recorded shape {seen.input_shape}: {error}."
        ) from error
    if shape != (2, seen.classes):
        raise BadObservation(
            f"{kind} gives outputs of shape {shape[1:]} where {seen.name} has {seen.classes} "
            "classes."
        )


def alike(observations: Sequence[Observation]) -> list[list[Observation]]:
    """The observations in groups that `stack` takes, in their order."""
    groups: dict[object, list[Observation]] = {}
    for seen in observations:
        groups.setdefault((id(seen.model), repr(needed(seen))), []).append(seen)
    return list(groups.values())


def _same(one: State, other: State) -> bool:
    return one is other or all(torch.equal(value, other[key]) for key, value in one.items())
