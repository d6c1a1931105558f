import io

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedpriv.flower import recorddict_to_proto
from fedpriv.rng import generator, seed_of
from fedpriv.screening import why_unusable
from fedpriv.state import apply, difference, digest, norm
from fedpriv.wire import Memory, content, record_of, state_in

SENT = {"w": torch.arange(6.0).reshape(2, 3), "count": torch.tensor(3)}


def reply(arrays, **metrics):
    message = Message(RecordDict(), 5, "train")
    figures = {"num-examples": 4, "loss": 0.5, **metrics}
    records = {} if arrays is None else {"arrays": arrays}
    return Message(RecordDict({**records, "metrics": MetricRecord(figures)}), reply_to=message)


def test_a_state_survives_the_wire():
    back = state_in(record_of(SENT))
    assert back.keys() == SENT.keys()
    assert all(torch.equal(back[k], SENT[k]) and back[k].dtype == SENT[k].dtype for k in SENT)


def test_arrays_are_those_flower_makes():
    """They are made past Flower's own constructors, which take longer than the arrays."""
    ours, flowers = record_of(SENT), ArrayRecord(SENT)
    assert ours == flowers and ours.object_id == flowers.object_id
    assert recorddict_to_proto(RecordDict({"a": ours})) == recorddict_to_proto(
        RecordDict({"a": flowers})
    )
    assert vars(ours).keys() == vars(flowers).keys()
    assert ours["w"].is_dirty == flowers["w"].is_dirty
    assert ours.keys() == flowers.keys()
    for name in ours:
        assert ours[name].data == flowers[name].data
        assert ours[name].dtype == flowers[name].dtype
        assert tuple(ours[name].shape) == tuple(flowers[name].shape)


def test_the_decoded_state_owns_its_memory():
    record = record_of(SENT)
    state_in(record)["w"].add_(1)
    assert torch.equal(state_in(record)["w"], SENT["w"])


def test_a_good_reply_has_nothing_wrong():
    assert why_unusable(reply(record_of(SENT)), SENT) is None
    assert why_unusable(reply(None), None) is None


def broken(**changes):
    return record_of({**SENT, **changes})


def with_one(value):
    """All as sent, and one odd value in the middle."""
    w = SENT["w"].clone()
    w[0, 1] = value
    return w


def pickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([object()]), allow_pickle=True)
    return ArrayRecord(
        {
            "w": Array("object", (1,), "numpy.ndarray", buffer.getvalue()),
            "count": record_of(SENT)["count"],
        }
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (reply(broken(w=torch.full((2, 3), torch.nan))), "'w' has NaN"),
        (reply(broken(w=torch.full((2, 3), torch.inf))), "'w' has NaN or infinity"),
        (reply(broken(w=with_one(-torch.inf))), "'w' has NaN or infinity"),
        (reply(broken(w=with_one(torch.nan))), "'w' has NaN or infinity"),
        (reply(broken(w=with_one(-2e30))), "'w' has a value beyond 1e+30"),
        (reply(broken(w=torch.zeros(3, 2))), "shape (3, 2) instead of (2, 3)"),
        (reply(broken(w=torch.zeros(2, 3).double())), "float64 instead of float32"),
        (reply(broken(w=torch.zeros(500, 500))), "bytes where 24 were expected"),
        (reply(broken(extra=torch.zeros(1))), "unknown ['extra']"),
        (reply(record_of({"w": SENT["w"]})), "missing ['count']"),
        (reply(pickled()), "cannot be decoded"),
        (reply(None), "0 array records"),
        (reply(record_of(SENT), **{"num-examples": 0}), "'num-examples' must be a positive"),
        (reply(record_of(SENT), **{"num-examples": float("nan")}), "'num-examples' must be"),
        (reply(record_of(SENT), loss=float("inf")), "metric 'loss' is inf"),
        (Message(Error(1, "no memory"), reply_to=Message(RecordDict(), 5, "train")), "no memory"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_reply_is_said(message, words):
    assert words in why_unusable(message, SENT)


@given(st.binary(max_size=200))
def test_garbage_is_named_and_never_decoded_by_pickle(data):
    record = record_of(SENT)
    record["w"] = Array("float32", (2, 3), "numpy.ndarray", data)
    assert "'w'" in why_unusable(reply(record), SENT)


def test_memory_keeps_tensors_and_facts():
    records = RecordDict()
    memory = Memory(records)
    assert memory.recall("head") is None
    assert memory.facts("steps") == {}
    memory.remember("head", SENT)
    memory.note("steps", {"n": 3, "history": [1.0, 2.0]})
    again = Memory(records)
    assert torch.equal(again.recall("head")["w"], SENT["w"])
    assert again.facts("steps") == {"n": 3, "history": [1.0, 2.0]}


def test_difference_and_apply_are_inverse():
    after = {"w": SENT["w"] * 2, "count": torch.tensor(9)}
    update = difference(after, SENT)
    assert update.keys() == {"w"}
    assert torch.equal(apply(SENT, update)["w"], after["w"])
    assert apply(SENT, {})["count"] == 3
    assert norm(update) == pytest.approx(float(SENT["w"].norm()))


def test_a_digest_sees_every_bit():
    other = {**SENT, "w": SENT["w"].clone()}
    assert digest(other) == digest(SENT)
    other["w"][0, 0] = 1e-30
    assert digest(other) != digest(SENT)


def test_streams_are_independent_and_repeatable():
    assert seed_of(1, "a", 2) == seed_of(1, "a", 2) != seed_of(1, "a", 3)
    assert torch.equal(
        torch.rand(3, generator=generator(1, "x")), torch.rand(3, generator=generator(1, "x"))
    )


def test_content_without_a_state_has_no_arrays():
    assert not content(None, metrics=MetricRecord({"a": 1.0})).array_records
