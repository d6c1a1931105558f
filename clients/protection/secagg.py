"""Secure aggregation on a client: the update leaves masked, and only the sum can be unmasked.

Flower's SecAgg+ uses Flower's older records. This translates them for the app's own train handler,
which need not know of sums. It masks the update and not the weights: updates are smaller, and lose
less when they are rounded to integers.

The protocol hides an update from a server that follows it. This refuses the questions by which a
server that does not could unmask one client: a threshold that half of them reach, both shares of
one peer, and one peer's mask several times (2^k times the same mask leaves k bits bare). With a
threshold of half, a server would tell one half that a client is alive, and the other half that it
is dead, and have both of its secrets. A server that invents its own peers is not held back by this
protocol.

Masks come from a stream cipher (`fedpriv.masks`). Numbers are rounded up or down by chance, with
draws that are fresh for every message.
"""

from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from torch import from_numpy

from fedpriv.clients.protection.reasons import refused
from fedpriv.clients.protection.secret import secrets_of
from fedpriv.errors import FedprivError, Refused
from fedpriv.flower import (
    RECORD_KEY_CONFIGS,
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
    secaggplus_mod,
)
from fedpriv.flower import recorddict_compat as compat
from fedpriv.flower import secaggplus_constants as words
from fedpriv.masks import check_range, masks_in
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import first_state
from fedpriv.state import difference
from fedpriv.wire import CONFIG, EXAMPLES, METRICS, ROUND, content, readdressed, received

CallNext = Callable[[Message, Context], Message]


def masked(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: in a scenario with secure aggregation no update leaves in the clear."""
    if message.metadata.message_type != MessageType.TRAIN:
        return call_next(message, context)
    if not Scenario.of(context.run_config).federation.secagg:
        return call_next(message, context)
    try:
        if RECORD_KEY_CONFIGS not in message.content.config_records:
            raise Refused("The scenario says secagg; this client does not answer in the clear.")
        check_stage(message)
        masks_in(secaggplus_mod)
        return secaggplus_mod(own_copy(message), context, lambda m, c: bridged(m, c, call_next))
    except (FedprivError, KeyError, TypeError, ValueError) as error:
        return refused(message, context, error)


def check_stage(message: Message) -> None:
    """Refused for questions by which one client's update could be unmasked."""
    asked = message.content.config_records[RECORD_KEY_CONFIGS]
    stage = asked.get(words.Key.STAGE)
    if stage == words.Stage.SETUP:
        shares, least = asked.get(words.Key.SHARE_NUMBER), asked.get(words.Key.THRESHOLD)
        if type(shares) is not int or type(least) is not int or least < max(2, shares // 2 + 1):
            raise Refused(
                f"secure aggregation: a threshold of {least!r} of {shares!r} shares is too low; it "
                "must be at least 2 and more than half of them."
            )
        check_range(asked.get(words.Key.MOD_RANGE))
    if stage == words.Stage.COLLECT_MASKED_VECTORS:
        peers = asked.get(words.Key.SOURCE_LIST)
        if not isinstance(peers, list) or len(set(peers)) != len(peers):
            raise Refused("secure aggregation: every peer's mask is added once, never again.")
    if stage == words.Stage.UNMASK:
        active, dead = (
            asked.get(name) for name in (words.Key.ACTIVE_NODE_ID_LIST, words.Key.DEAD_NODE_ID_LIST)
        )
        if not isinstance(active, list) or not isinstance(dead, list):
            raise Refused("secure aggregation: lists of the active and the dead are missing.")
        both = [*active, *dead]
        if len(set(both)) != len(both) or message.metadata.dst_node_id in dead:
            raise Refused(
                "secure aggregation: a client gives one of two shares of each peer, never both."
            )


def own_copy(message: Message) -> Message:
    """The message with a configuration of its own: Flower's mod takes entries out of it."""
    records = RecordDict(dict(message.content))
    records[RECORD_KEY_CONFIGS] = ConfigRecord(
        dict(message.content.config_records[RECORD_KEY_CONFIGS])
    )
    return readdressed(message, records)


def bridged(message: Message, context: Context, call_next: CallNext) -> Message:
    """The app's train handler, asked and answering in SecAgg+'s records."""
    asked = compat.recorddict_to_fitins(message.content, keep_input=True)
    template = first_state(Scenario.of(context.run_config))
    sent = dict(template)
    values = parameters_to_ndarrays(asked.parameters)
    names = [name for name, value in template.items() if value.is_floating_point()]
    if len(names) != len(values):
        raise Refused(f"the server sent {len(values)} arrays where the model has {len(names)}")
    sent |= {name: from_numpy(value.copy()) for name, value in zip(names, values, strict=True)}
    plain = readdressed(message, content(sent, **{CONFIG: ConfigRecord(dict(asked.config))}))
    reply = call_next(plain, context)
    if reply.has_error():
        raise Refused(reply.error.reason)
    update = difference(received(reply), sent)
    # Flower rounds by numpy's global generator, which a forked process inherits.
    secrets_of(context).layers("secagg", asked.config.get(ROUND), "rounding")()
    examples = reply.content.metric_records[METRICS][EXAMPLES]
    answer = FitRes(
        status=Status(Code.OK, ""),
        parameters=ndarrays_to_parameters([update[name].double().numpy() for name in names]),
        num_examples=int(examples),  # type: ignore[arg-type]
        metrics={},
    )
    records: RecordDict = compat.fitres_to_recorddict(answer, keep_input=False)
    return Message(records, reply_to=message)
