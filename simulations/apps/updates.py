"""One client's update, or a round's sum, out of the messages of an app."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flwr.app import RecordDict

from fedpriv.clients.noticing import Notes
from fedpriv.evidence.observation import FACTS, Observation
from fedpriv.simulations.apps.protocol import facts_told
from fedpriv.state import State
from fedpriv.wire import state_in

if TYPE_CHECKING:
    from fedpriv.simulations.apps.watching import Watched


def observed(
    sent: State, received: State, facts: dict[str, Any], server_round: int, node: int
) -> Observation:
    """An observation with these facts; all others are unknown."""
    unknown = tuple(n for n in FACTS if n not in facts and n not in ("round", "node"))
    stand_ins: dict[str, Any] = {"lr": 1.0, "input_shape": (), "classes": 1}
    return Observation(
        sent=sent,
        received=received,
        round=server_round,
        node=node,
        unknown=unknown,
        **{**stand_ins, **facts},
    )


def trained_by(notes: Notes) -> State:
    """The weights that a client's model has after training, by the model's own names."""
    if len(notes.chain) != 1:
        return {}
    state = notes.chain[0][0].state_dict()
    return {key: value.detach().cpu().clone() for key, value in state.items()}


def weights_in(sent: RecordDict, reply: RecordDict, trained: State) -> tuple[State, State] | None:
    """What went and came of one model, out of all records whose entries were sent and came back.

    An entry that did not come back (a frozen layer, all but an adapter) is as it was sent. A reply
    that is nearer to the change of the weights than to the weights is added to what was sent.
    """
    before: State = {}
    after: State = {}
    for mine, record in sent.array_records.items():
        old = state_in(record)
        for record in reply.array_records.values():
            new = state_in(record)
            known = {
                key: value
                for key, value in new.items()
                if key in old and value.shape == old[key].shape
            }
            if known and len(known) == len(new):
                before |= {named(key, mine, before, trained): value for key, value in old.items()}
                after |= {named(key, mine, after, trained): value for key, value in known.items()}
                break
    if not after:
        return None
    if are_changes(before, after, trained):
        after = {key: before[key] + value for key, value in after.items()}
    return before, {**before, **after}


def named(key: str, record: str, taken: State, model: State) -> str:
    """An entry's name in the model: one of several records may be named for its part."""
    if key not in model and f"{record}.{key}" in model:
        return f"{record}.{key}"
    return f"{record}.{key}" if key in taken else key


def are_changes(before: State, after: State, trained: State) -> bool:
    """Whether a reply holds what was added to the weights, judged by the client's own model."""
    if all(key.isdigit() for key in after) and len(after) == len(trained):
        values = zip(sorted(after, key=int), trained.values(), strict=True)
        trained = {key: value for key, value in values if value.shape == after[key].shape}
    keys = [key for key in after if key in trained and after[key].is_floating_point()]
    as_weights = sum(float((after[key] - trained[key]).square().sum()) for key in keys)
    as_change = sum(float((before[key] + after[key] - trained[key]).square().sum()) for key in keys)
    return as_change < as_weights


def sums_of(watched: "Watched", node: int) -> list[Observation]:
    """Under secure aggregation a server sees the sum: the model sent and the clients' mean.

    It is an update of all the samples of the round's clients, under the name of `node`. Where no
    sum was heard, the next public model stands for it.
    """
    if not watched.notes:
        return []
    each = max(1, len(watched.notes) // max(1, len(watched.rounds)))
    facts = facts_told(watched.notes[0], watched.notes, None, watched.eyes)
    for name in ("batch_size", "num_examples"):
        if name in facts:
            facts[name] *= each
    rounds = sorted(watched.public)
    after = dict(pairwise(rounds))
    found = []
    for number in rounds:
        sent = watched.public[number]
        if number in watched.sums and len(watched.sums[number]) == len(sent):
            pairs = zip(sent.items(), watched.sums[number], strict=True)
            mean = {key: new.reshape(old.shape).to(old.dtype) for (key, old), new in pairs}
        elif number in after and watched.public[after[number]].keys() == sent.keys():
            mean = watched.public[after[number]]
        else:
            continue
        found.append(observed(sent, mean, facts, number, node))
    return found
