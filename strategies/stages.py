"""What is wrong with a reply in one of SecAgg+'s four stages.

Flower's workflow reads these replies without a look at them. Whatever does not fit is turned into
an error here, which the workflow takes for a client that dropped out.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from flwr.app import Array, ConfigRecord, Message

from fedpriv.flower import RECORD_KEY_CONFIGS, SecAggKey, Stage
from fedpriv.flower import recorddict_compat as compat
from fedpriv.screening import said, why_odd_array

LONGEST = 4096  # bytes of a key, a share or a ciphertext; honest ones have a few hundred
RECORDS = 5  # the most that a stage's reply has
CURVE = ec.SECP384R1.name
Shapes = list[tuple[int, ...]]


def why_odd_stage(asked: Message, reply: Message, shapes: Shapes, heaviest: float) -> str | None:
    """What is wrong with the reply to a stage's message; `shapes` are those of the model."""
    if reply.has_error():
        return said(reply.error.reason or f"error {reply.error.code}")
    if not reply.has_content() or len(reply.content) > RECORDS:
        return "secure aggregation: it carries no answer to the stage"
    sent = asked.content.config_records[RECORD_KEY_CONFIGS]
    given = reply.content.config_records.get(RECORD_KEY_CONFIGS)
    if given is None or len(given) > 2:
        return "secure aggregation: it carries no answer to the stage"
    node = asked.metadata.dst_node_id
    why = {
        Stage.SETUP: lambda: why_odd_keys(given),
        Stage.SHARE_KEYS: lambda: why_odd_list(
            given,
            SecAggKey.DESTINATION_LIST,
            SecAggKey.CIPHERTEXT_LIST,
            {int(key) for key in sent if key != SecAggKey.STAGE} - {node},
        ),
        Stage.COLLECT_MASKED_VECTORS: lambda: why_odd_sum(given, reply, shapes, heaviest),
        Stage.UNMASK: lambda: why_odd_list(
            given,
            SecAggKey.NODE_ID_LIST,
            SecAggKey.SHARE_LIST,
            {*sent[SecAggKey.ACTIVE_NODE_ID_LIST], *sent[SecAggKey.DEAD_NODE_ID_LIST]},  # type: ignore[misc]
        ),
    }[str(sent[SecAggKey.STAGE])]()
    return None if why is None else f"secure aggregation: {why}"


def why_odd_keys(given: ConfigRecord) -> str | None:
    """Two different public keys on the protocol's curve; clients refuse a round with other keys."""
    keys = [given.get(SecAggKey.PUBLIC_KEY_1), given.get(SecAggKey.PUBLIC_KEY_2)]
    for key in keys:
        if not isinstance(key, bytes) or len(key) > LONGEST:
            return "it sent no public keys"
        try:
            read = load_pem_public_key(key)
        except (ValueError, UnsupportedAlgorithm):
            return "its public key cannot be read"
        if not isinstance(read, ec.EllipticCurvePublicKey) or read.curve.name != CURVE:
            return f"its public key is not on the curve {CURVE}"
    return "its two public keys are one and the same" if keys[0] == keys[1] else None


def why_odd_list(given: ConfigRecord, names: str, values: str, nodes: set[int]) -> str | None:
    """One short piece of bytes for each of the nodes."""
    ids, pieces = given.get(names), given.get(values)
    if not isinstance(ids, list) or not isinstance(pieces, list) or len(ids) != len(pieces):
        return f"'{names}' and '{values}' must be lists of one length"
    if len(ids) != len(nodes) or set(ids) != nodes:
        return f"'{names}' names other nodes than it was told of"
    if any(not isinstance(piece, bytes) or len(piece) > LONGEST for piece in pieces):
        return f"'{values}' must hold at most {LONGEST} bytes each"
    return None


def why_odd_sum(given: ConfigRecord, reply: Message, shapes: Shapes, heaviest: float) -> str | None:
    """Masked integers of the model's shapes after the weight, and a weight that can be true."""
    parts: Any = given.get(SecAggKey.MASKED_PARAMETERS)
    if not isinstance(parts, list) or len(parts) != 1 + len(shapes):
        return f"it must send {1 + len(shapes)} masked arrays"
    for part, shape in zip(parts, [(1,), *shapes], strict=True):
        if not isinstance(part, bytes):
            return "a masked array must be bytes"
        array = Array("int64", shape, "numpy.ndarray", part)
        why = why_odd_array(array, np.dtype(np.int64), shape)
        if why is not None:
            return f"a masked array {why}"
    if any(len(record) for record in reply.content.array_records.values()):
        return "it sent arrays that are not masked"
    try:
        examples = compat.recorddict_to_fitres(reply.content, keep_input=True).num_examples
    except Exception as error:  # Flower's reader takes every record for granted
        return f"it does not say its weight ({type(error).__name__})"
    if type(examples) is not int or not 0 < examples <= heaviest:
        return (
            f"its weight is {said(repr(examples), 40)}, and 1 to {heaviest:g} samples are possible"
        )
    return None


def same_keys(replies: Mapping[int, Message]) -> set[int]:
    """Nodes that sent a public key which another one sent, too."""
    seen: dict[object, int] = {}
    found = set()
    for node, reply in replies.items():
        for key in reply.content.config_records[RECORD_KEY_CONFIGS].values():
            if seen.setdefault(key, node) != node:
                found |= {node, seen[key]}
    return found
