"""A client that runs out of memory beside others: it says so, and is tried again alone.

Ray counts shares of a GPU and does not bound what a client takes there. Two clients may need more
together than there is, and each of them less.
"""

import gc
import logging
from collections.abc import Callable
from typing import Any

import torch
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

log = logging.getLogger(__name__)
RAN_OUT = 454  # the code of an error reply: the client ran out of memory; wire.REFUSED is another
App = Callable[[Message, Context], Message]


def ran_out(reply: Message) -> bool:
    """Whether a reply says that its client ran out of memory."""
    return reply.has_error() and reply.error.code == RAN_OUT


def out_of_memory(message: Message, why: str) -> Message:
    """The reply of a client that ran out of memory."""
    return Message(Error(RAN_OUT, f"OutOfMemoryError: {why}"), reply_to=message)


def answering(app_fn: Callable[[], ClientApp]) -> App:
    """The app of a worker. Without memory it gives a reply: Ray keeps no exception's type."""
    app = app_fn()

    def answer(message: Message, context: Context) -> Message:
        try:
            return app(message, context)
        except torch.OutOfMemoryError as error:
            why = str(error)
        free()  # outside of the handler, which holds the work's tensors
        return out_of_memory(message, why)

    return answer


def free(_: Any = None) -> None:
    """Give back what this process keeps for its next tensors."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
