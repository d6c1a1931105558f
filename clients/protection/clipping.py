"""A Flower mod: the update is clipped when the server's DP strategy asks for it."""

import math
from collections.abc import Callable

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp.mod import adaptiveclipping_mod

from fedpriv.errors import Refused
from fedpriv.wire import records_in

NORM = "clipping_norm"  # the key in Flower's configuration records


def clipped_as_asked(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Clip with Flower's mod if the message names a norm; it also reports whether it clipped."""
    records = records_in(message.content, ConfigRecord) if message.has_content() else {}
    norms = [record[NORM] for record in records.values() if NORM in record]
    if not norms:
        return call_next(message, context)
    for norm in norms:
        if type(norm) not in (int, float) or not 0 < norm < math.inf:  # type: ignore[operator]
            raise Refused(f"'{NORM}' must be a finite number above 0, got {norm!r}.")
    return adaptiveclipping_mod(message, context, call_next)
