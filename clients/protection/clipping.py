"""A Flower mod: the update is clipped when the server's DP strategy asks for it."""

from collections.abc import Callable

from flwr.app import Context, Message
from flwr.clientapp.mod import adaptiveclipping_mod

NORM = "clipping_norm"  # the key in Flower's configuration records


def clipped_as_asked(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Clip with Flower's mod if the message names a norm; it also reports whether it clipped."""
    if message.has_content() and any(NORM in c for c in message.content.config_records.values()):
        return adaptiveclipping_mod(message, context, call_next)
    return call_next(message, context)
