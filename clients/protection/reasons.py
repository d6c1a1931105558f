"""What a server is told when a client does not answer: one short reason without figures of data.

The owner's log has the whole error. A simulated client tells everything: its owner reads it.
"""

import logging

from flwr.app import Context, Message

from fedpriv.clients.protection.folder import simulated
from fedpriv.errors import BadInput, BadOption, BadScenario, Refused
from fedpriv.wire import refusal

log = logging.getLogger(__name__)
PUBLIC = (Refused, BadOption, BadScenario, BadInput)  # written for whoever chose the settings
PRIVATE = "This client could not follow the message; its owner's log says why."


def refused(message: Message, context: Context, error: Exception) -> Message:
    """The error reply of a client; other errors than those written for a server are not told."""
    if simulated(context):
        log.warning("refused: %s", error)
        return refusal(message, error)
    if type(error) in PUBLIC:
        log.warning("refused: %s", error)
        return refusal(message, error)
    log.error("a message could not be followed", exc_info=error)
    return refusal(message, PRIVATE)
