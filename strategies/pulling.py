"""A grid over the network that survives what it pulls: one reply at a time, each from its sender.

Flower's own grid builds a batch of replies from the senders' bytes. One reply that cannot be built
ends the run, and takes the others of its batch along. What a reply says of its sender is in those
bytes, too: only the question that it was stored under is beyond the sender's reach.
"""

import time
from collections.abc import Iterable
from typing import Any

import httpx
from flwr.app import Error, Message
from flwr.serverapp import Grid

from fedpriv.flower import HttpGrid, Run
from fedpriv.screening import said

UNREADABLE = 453  # the code of an error reply: what the client sent is no reply
PAUSE = 0.5  # seconds between two looks


class Through(Grid):
    """A grid that passes everything on to another one."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    def set_run(self, run: Run) -> None:
        self.grid.set_run(run)

    @property
    def run(self) -> Run:
        return self.grid.run

    def create_message(self, *arguments: Any, **options: Any) -> Message:
        return self.grid.create_message(*arguments, **options)

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self.grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.grid.send_and_receive(messages, timeout=timeout)


class Careful(Through):
    """A grid whose replies are pulled one by one; one that cannot be read becomes an error."""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        messages = list(messages)
        ends = None if timeout is None else time.monotonic() + timeout
        waiting = {
            number: message
            for number, message in zip(self.push_messages(messages), messages, strict=False)
            if number is not None
        }
        found: list[Message] = []
        while waiting:
            for number, message in list(waiting.items()):
                reply = self.reply_to(number, message)
                if reply is not None:
                    found.append(reply)
                    del waiting[number]
            if not waiting or (ends is not None and time.monotonic() >= ends):
                break
            time.sleep(PAUSE)
        return found

    def reply_to(self, number: str, message: Message) -> Message | None:
        """The reply to a message, if it is there; an error in its place when it is none."""
        try:
            pulled = list(self.pull_messages([number]))
        except (httpx.HTTPError, OSError):
            raise  # the network's doing, not the client's
        except Exception as error:
            return unreadable(message, f"{type(error).__name__}: {said(error)}")
        if not pulled:
            return None
        about = pulled[0].metadata
        if about.reply_to_message_id != number:
            return unreadable(message, "it answers another message than the one it was sent")
        if about.src_node_id != message.metadata.dst_node_id and not pulled[0].has_error():
            return unreadable(message, f"it signs as node {about.src_node_id}")
        return pulled[0]


def unreadable(message: Message, why: str) -> Message:
    """The answer to a message whose reply cannot be read."""
    return Message(Error(UNREADABLE, f"its reply cannot be read: {why}"), reply_to=message)


def careful(grid: Grid) -> Grid:
    """The grid; one that pulls from a network, with care."""
    return Careful(grid) if isinstance(grid, HttpGrid) else grid
