"""What makes a reply unusable, in words: looked at under limits, before anything is built.

Whoever answers may send anything. One odd reply must cost a line in the log, not the run.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord

from fedpriv.wire import ARRAYS, EXAMPLES, METRICS, decoded, records_in

WORDS = 300  # characters of somebody else's text that we repeat
RECORDS = 4  # records of a reply
FIGURES, NAME = 64, 120  # metrics of a reply, and characters of a metric's name
LARGEST_COUNT = 2.0**53  # beyond it, counts are not exact any more
LARGEST_FIGURE = 1e100  # sums of such figures stay finite
LARGEST_WEIGHT = 1e30  # its square is no number any more in single precision
LARGEST_CODE = 1e6  # codes are what a classifier is trained on
EPSILON, DELTA = "epsilon", "delta"


def said(text: object, longest: int = WORDS) -> str:
    """Somebody else's text, fit for one line of a log: nothing unprintable, and not too long."""
    whole = str(text)
    plain = "".join(c if c.isprintable() else " " for c in whole[:longest])
    return plain if len(whole) <= longest else f"{plain}… ({len(whole)} characters)"


def is_number(value: object) -> bool:
    """Whether it is one finite number that arithmetic of doubles can take."""
    if type(value) not in (int, float):
        return False
    return abs(value) <= LARGEST_FIGURE and math.isfinite(value)  # type: ignore[arg-type]


def why_unusable(reply: Message, sent: Mapping[str, torch.Tensor] | None) -> str | None:
    """What is wrong with a reply, in words; None when it can enter a mean.

    `sent` is the state the reply must fit (None: the reply carries no arrays to compare with).
    Counts and sizes are checked before anything is decoded.
    """
    why = why_not_an_answer(reply)
    if why is not None:
        return why
    figures = records_in(reply.content, MetricRecord)[METRICS]
    examples = figures.get(EXAMPLES)
    if not is_number(examples) or not 0 < examples <= LARGEST_COUNT:  # type: ignore[operator]
        return f"'{EXAMPLES}' must be a positive number, got {said(repr(examples), 60)}"
    if sent is None:
        return None
    arrays = records_in(reply.content, ArrayRecord)
    if (records := list(arrays)) != [ARRAYS]:
        names = [said(name, 40) for name in records[:3]]
        return f"it carries {len(records)} array records {names} instead of one, '{ARRAYS}'"
    return why_misfit(arrays[ARRAYS], sent)


def why_not_an_answer(reply: Message) -> str | None:
    """What is wrong with the envelope and the figures of a reply, whatever it answers."""
    if reply.has_error():
        return said(reply.error.reason or f"error {reply.error.code}")
    if not reply.has_content():
        return "it is empty"
    if len(reply.content) > RECORDS:
        return f"it carries {len(reply.content)} records, at most {RECORDS} are read"
    if configs := records_in(reply.content, ConfigRecord):
        return f"it carries {len(configs)} config records, none was asked for"
    metrics = records_in(reply.content, MetricRecord)
    if (records := list(metrics)) != [METRICS]:
        names = [said(name, 40) for name in records[:3]]
        return f"it carries {len(records)} metric records {names} instead of one, '{METRICS}'"
    return why_odd_figures(metrics[METRICS])


def why_odd_figures(figures: MetricRecord) -> str | None:
    """What is wrong with a client's metrics."""
    if len(figures) > FIGURES:
        return f"it carries {len(figures)} metrics, at most {FIGURES} are read"
    for name, value in figures.items():
        if not name.isprintable() or not 0 < len(name) <= NAME:
            return f"a metric is called '{said(name, 40)}': 1 to {NAME} printable characters"
        if isinstance(value, list):
            return f"metric '{name}' is a list of {len(value)}, a number is expected"
        if not is_number(value) and name != EXAMPLES:
            return f"metric '{name}' is {said(value, 40)}, a finite number is expected"
    spent = figures.get(EPSILON, 0.0)
    if spent < 0:  # type: ignore[operator]
        return f"'{EPSILON}' is {spent}, and no privacy loss is negative"
    return None


def why_misfit(record: ArrayRecord, sent: Mapping[str, torch.Tensor]) -> str | None:
    """What is wrong with arrays that must have the names, shapes and types of a state."""
    if len(record) > 2 * len(sent) + RECORDS:
        return f"it carries {len(record)} arrays where {len(sent)} were expected"
    missing, extra = sorted(sent.keys() - record.keys()), sorted(record.keys() - sent.keys())
    if missing or extra:
        unknown = [said(name, 40) for name in extra[:3]]
        return f"its parameters differ: missing {missing[:3]}, unknown {unknown}"
    for name, value in sent.items():
        why = why_odd_array(record[name], value.numpy().dtype, tuple(value.shape))
        if why is not None:
            return f"'{name}' {why}"
    return None


def why_odd_array(
    array: Array, dtype: np.dtype, shape: tuple[int, ...], *, most_rows: int | None = None
) -> str | None:
    """What is wrong with an array that must have this type and shape.

    With `most_rows` it is an array of codes: `shape` is that of a row, and there may be up to so
    many rows.
    """
    largest = LARGEST_WEIGHT if most_rows is None else LARGEST_CODE
    size = math.prod(shape) * dtype.itemsize * (1 if most_rows is None else most_rows)
    if len(array.data) > size + 4096:
        return f"has {len(array.data)} bytes where {size} were expected"
    try:
        values = decoded(array)
    except ValueError as error:
        return f"cannot be decoded: {said(error)}"
    found = values.shape if most_rows is None else values.shape[1:]
    if found != shape or (most_rows is not None and not 0 < values.ndim == len(shape) + 1):
        return f"has shape {said(values.shape, 60)} instead of {shape}"
    if values.dtype != dtype:
        return f"is {values.dtype} instead of {dtype}"
    if dtype.kind != "f" or not values.size:
        return None
    # Of a NaN among them both are NaN, and no comparison with it holds.
    if -largest <= values.min() and values.max() <= largest:
        return None
    if not np.isfinite(values).all():
        return "has NaN or infinity"
    return f"has a value beyond {largest:g}"
