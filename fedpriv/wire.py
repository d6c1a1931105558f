"""What travels: Flower's records and messages, and a client's memory."""

import io
import math
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedpriv.errors import Refused
from fedpriv.state import State

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
EXAMPLES, ROUND, PARTITION = "num-examples", "server-round", "partition-id"
ADMITTED = "admitted-examples"  # of a client whose "num-examples" is only its weight
# Kinds of message beside Flower's own: train alone, publish an encoder, share codes or columns,
# learn a pool.
ALONE, ENCODER, CODES = "train.standalone", "train.encoder", "query.codes"
COLUMNS, POOL = "train.columns", "train.pool"
MEMORY = "fedpriv."  # prefix of our records in a client's context.state
MOST_ROUNDS = 1_000_000  # of one run
LONGEST_HEADER = 1024  # bytes of an .npy header; 32 dimensions fit
Kind = TypeVar("Kind", ArrayRecord, ConfigRecord, MetricRecord)
REFUSED = 451  # the code of an error reply: the client will not or cannot follow the message


def record_of(state: Mapping[str, torch.Tensor]) -> ArrayRecord:
    """A state as Flower's arrays."""
    found = {name: _encoded(value) for name, value in state.items()}
    record = ArrayRecord()
    vars(record)["_data"].update(found)  # `record[name] = array` takes longer than its array
    return record


def state_in(record: ArrayRecord) -> State:
    """Flower's arrays as a state of tensors that own their memory; ValueError when damaged."""
    return {name: torch.from_numpy(decoded(array).copy()) for name, array in record.items()}


def views_in(record: ArrayRecord) -> State:
    """As `state_in` without a copy, for those who only read: nobody may write into the result."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {name: torch.from_numpy(decoded(array)) for name, array in record.items()}


def _encoded(value: torch.Tensor) -> Array:
    """What `Array(ndarray)` gives, without writing the same .npy header anew each time.

    Nor are its parts looked through again: for a small model that takes as long as all the rest.
    """
    array = value.detach().cpu().contiguous().numpy()
    head = _head(array.dtype.str, array.shape)
    # Joined, the numbers are copied once.
    data = b"".join((head, array.reshape(-1).data.cast("B"))) if array.size else head
    found = Array.__new__(Array)
    name = _name(array.dtype)
    vars(found).update(dtype=name, shape=array.shape, stype="numpy.ndarray", data=data)
    return found


_name = lru_cache(maxsize=64)(str)  # of a type of numbers; numpy puts it together anew each time


@lru_cache(maxsize=4096)
def _head(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The .npy header of a C-ordered array."""
    stream = io.BytesIO()
    facts = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)
    return stream.getvalue()


def decoded(array: Array) -> np.ndarray:
    """The numpy array in `array`, without a copy and without pickle; ValueError when damaged.

    Whoever sent the bytes may have chosen every one of them. So only numpy's plain format is read
    (no zip archive, no pickle), and the header must account for every byte that follows.
    """
    if array.stype != "numpy.ndarray":
        raise ValueError(f"arrays must be numpy's, got '{array.stype[:40]}'")
    start = 10 + int.from_bytes(array.data[8:10], "little")
    if array.data[:8] != b"\x93NUMPY\x01\x00" or start > LONGEST_HEADER:
        raise ValueError("its bytes do not begin as numpy's do")
    dtype, shape, fortran = _header(array.data[:start])
    if dtype.kind not in "biuf":
        raise ValueError(f"its elements are '{dtype}' instead of plain numbers")
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its shape is {shape}")
    if math.prod(shape) * dtype.itemsize != len(array.data) - start:
        raise ValueError(
            f"its shape {shape} of {dtype} does not fit the {len(array.data) - start} bytes it has"
        )
    flat = np.frombuffer(array.data, dtype, offset=start)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


@lru_cache(maxsize=4096)
def _header(head: bytes) -> tuple[np.dtype, tuple[int, ...], bool]:
    """dtype, shape and order in an .npy header: parsing one costs more than a small array."""
    stream = io.BytesIO(head)
    try:
        np.lib.format.read_magic(stream)
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # its bytes are somebody's choice, and reach Python's own parser
        raise ValueError(f"its header cannot be read ({type(error).__name__})") from error
    return dtype, shape, fortran


def records_in(content: RecordDict, kind: type[Kind]) -> dict[str, Kind]:
    """A message's records of one kind by name, as `content.array_records` and its like have them.

    Those build a dictionary that checks each record three times over, whenever one is asked for.
    """
    return {name: record for name, record in content.items() if isinstance(record, kind)}


def content(state: Mapping[str, torch.Tensor] | None, **records: Any) -> RecordDict:
    """A message's content: the arrays if any, and other records by key."""
    parts = {} if state is None else {ARRAYS: record_of(state)}
    return RecordDict({**parts, **records})


def received(message: Message) -> State:
    """The state in a message's arrays."""
    return state_in(records_in(message.content, ArrayRecord)[ARRAYS])


def round_in(message: Message) -> int | None:
    """The server's round in a message; None for a question that belongs to no round.

    Refused for a round that is not a whole number: budgets are kept by round, and a client that
    went on without one would spend what nobody counts.
    """
    records = records_in(message.content, ConfigRecord) if message.has_content() else {}
    config = records.get(CONFIG)
    value = None if config is None else config.get(ROUND)
    if value is not None and (type(value) is not int or not 1 <= value <= MOST_ROUNDS):
        raise Refused(
            f"'{ROUND}' must be a whole number from 1 to {MOST_ROUNDS}, got {str(value)[:40]!r}."
        )
    return value


def round_of(message: Message) -> int:
    """The server's round in a message; Refused when it names none."""
    found = round_in(message)
    if found is None:
        raise Refused(f"The message names no round: '{ROUND}' is missing in its '{CONFIG}'.")
    return found


def reply(message: Message, state: State | None, figures: Mapping[str, float]) -> Message:
    """The answer to a message: a state, if any, and figures beside it."""
    return Message(content(state, **{METRICS: MetricRecord(dict(figures))}), reply_to=message)


def readdressed(message: Message, records: RecordDict) -> Message:
    """Other content in the envelope of a message: the same sender, receiver and type."""
    found: Message = Message(records, metadata=message.metadata)  # type: ignore[call-overload]
    return found


def refusal(message: Message, why: object) -> Message:
    """The answer of a client that will not or cannot follow a message, with its reason."""
    return Message(Error(REFUSED, str(why)), reply_to=message)


class Memory:
    """What a client keeps from round to round, in Flower's `context.state`; it never travels."""

    def __init__(self, records: RecordDict) -> None:
        self._records = records

    def recall(self, key: str) -> State | None:
        """The tensors kept under `key`."""
        record = self._records.array_records.get(MEMORY + key)
        return None if record is None else state_in(record)

    def remember(self, key: str, state: Mapping[str, torch.Tensor]) -> None:
        self._records[MEMORY + key] = record_of(state)

    def facts(self, key: str) -> dict[str, Any]:
        """The plain values kept under `key`, empty at first."""
        return dict(self._records.config_records.get(MEMORY + key, {}))

    def note(self, key: str, facts: Mapping[str, Any]) -> None:
        self._records[MEMORY + key] = ConfigRecord(dict(facts))


def metrics_of(record: MetricRecord | None) -> dict[str, float]:
    """A metric record as plain numbers."""
    return {} if record is None else {k: v for k, v in record.items() if not isinstance(v, list)}
