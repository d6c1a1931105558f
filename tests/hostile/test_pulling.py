"""Bytes that are no reply, and replies that lie about their sender, in Flower's object store."""

import os

import httpx
import pytest
import torch
from flwr.app import Message, RecordDict
from flwr.supercore.inflatable import inflatable_object, inflatable_utils

from fedpriv.flower import HttpGrid
from fedpriv.screening import why_unusable
from fedpriv.strategies.exchange import sorted_out
from fedpriv.strategies.pulling import Careful, careful
from fedpriv.wire import content, reply

STATE = {"w": torch.zeros(3)}
ODD = 3


class Stored(HttpGrid):
    """Flower's grid with a store in this process: replies are kept as bytes, and built from them
    by Flower itself.
    """

    def __init__(self, tamper=lambda contents: contents, change=lambda answer: None):
        super().__init__(token="any")
        self.tamper, self.change, self.store = tamper, change, {}

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            number = f"question-{message.metadata.dst_node_id}"
            message.metadata.__dict__["_message_id"] = number
            self.keep(number, message)
            numbers.append(number)
        return numbers

    def keep(self, number, message):
        answer = reply(message, STATE, {"num-examples": 4})
        odd = message.metadata.dst_node_id == ODD
        if odd:
            self.change(answer)
        objects = inflatable_object.get_all_nested_objects(answer)
        contents = {name: one.deflate() for name, one in objects.items()}
        self.store[number] = (answer.object_id, self.tamper(contents) if odd else contents)

    def pull_messages(self, message_ids):
        found = []
        for number in message_ids:
            name, contents = self.store.pop(number, (None, None))
            if name is not None:
                found.append(inflatable_utils.inflate_object_from_contents(name, contents))
        return found


def asked(grid):
    messages = [Message(content(STATE), node, "train") for node in (2, ODD, 4)]
    replies = list(grid.send_and_receive(messages, timeout=5))
    good, failed, odd = sorted_out(messages, replies, int, lambda r: why_unusable(r, STATE))
    assert [r.metadata.src_node_id for r in good] == [2, 4] and not odd
    ((failure, node),) = failed
    assert node == ODD
    return failure["why"]


def of_kind(kind, change):
    """Change the bytes of all objects of a kind."""
    return lambda contents: {
        name: change(data) if data.startswith(kind) else data for name, data in contents.items()
    }


TAMPERED = {
    "arrays of rubbish": of_kind(b"ArrayRecord", lambda d: b"ArrayRecord 50\x00" + os.urandom(50)),
    "an unknown object": of_kind(b"ArrayRecord", lambda d: d.replace(b"ArrayRecord", b"Unknown")),
    "a message of rubbish": of_kind(b"Message", lambda d: d[:30] + os.urandom(40)),
    "no bytes": of_kind(b"MetricRecord", lambda d: b""),
    "objects that are not there": lambda contents: dict(list(contents.items())[-1:]),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_a_reply_that_cannot_be_built_is_its_senders_loss(kind):
    assert "cannot be read" in asked(Careful(Stored(TAMPERED[kind])))


@pytest.mark.parametrize("kind", TAMPERED)
def test_flowers_own_grid_ends_with_all_replies_lost(kind):
    """Why the care is needed: without it the honest replies of the same batch are gone, too."""
    messages = [Message(content(STATE), node, "train") for node in (2, ODD, 4)]
    with pytest.raises(Exception):  # noqa: B017
        Stored(TAMPERED[kind]).send_and_receive(messages, timeout=5)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("_src_node_id", 2, "signs as node 2"),
        ("_reply_to_message_id", "question-2", "another message"),
        ("_reply_to_message_id", "", "another message"),
    ],
)
def test_a_reply_that_lies_about_where_it_comes_from_is_refused(field, value, words):
    def lie(answer):
        answer.metadata.__dict__[field] = value

    assert words in asked(Careful(Stored(change=lie)))


def test_a_broken_network_is_not_taken_for_a_client():
    class Cut(Stored):
        def pull_messages(self, message_ids):
            raise httpx.ConnectError("the SuperLink is gone")

    with pytest.raises(httpx.ConnectError):
        Careful(Cut()).send_and_receive([Message(RecordDict(), 2, "train")], timeout=5)


def test_a_grid_over_the_network_is_pulled_with_care():
    assert isinstance(careful(Stored()), Careful)
