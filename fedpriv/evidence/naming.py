"""Recorded arrays under the names of a model: lists have none, and parts lack some."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from fedpriv.evidence.observation import Observation
from fedpriv.state import State


def fitted_to(seen: Observation, model: nn.Module) -> Observation:
    """The observation with the model's names and all of its entries, where that is possible.

    Arrays named "0", "1", … are the model's in order, if they have its shapes. An entry that was
    never exchanged (all but an adapter, all but a head) is the model's own and did not move.
    """
    own = model.state_dict()
    seen = by_order(seen, own)
    missing = own.keys() - seen.sent.keys()
    if not missing or not seen.sent.keys() < own.keys():
        return seen
    frozen = {key: own[key].detach().clone() for key in missing}
    return replace(seen, sent={**frozen, **seen.sent}, received={**frozen, **seen.received})


def by_order(seen: Observation, own: State) -> Observation:
    """Arrays without names by the model's names; unchanged where orders or shapes differ."""
    if not seen.sent or not all(key.isdigit() for key in seen.sent):
        return seen
    order = sorted(seen.sent, key=int)
    floats = [name for name, value in own.items() if value.is_floating_point()]
    for names in (list(own), floats):
        if shapes(seen.sent, order) == shapes(own, names):
            pairs = list(zip(order, names, strict=True))
            sent, received = (
                {name: state[key].reshape(own[name].shape) for key, name in pairs}
                for state in (seen.sent, seen.received)
            )
            return replace(seen, sent=sent, received=received)
    return seen


def shapes(state: State, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Shapes in order; a number alone may travel as an array of one."""

    def plain(value: Tensor) -> tuple[int, ...]:
        return () if value.numel() == 1 else tuple(value.shape)

    return [plain(state[name]) for name in names]
