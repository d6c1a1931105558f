"""A client that never answers as it should: `python -m hostile_executor` in place of our executor.

It has a registered key and a SuperNode like everybody else. Each message gets the next odd reply of
its kind; which one comes next is kept in the client's folder, as every message has a process of
its own.
"""

import os
from pathlib import Path

import odd_replies
from flwr.clientapp import ClientApp

from fedpriv.clients.protection import executor
from fedpriv.wire import received, reply

EVERY = "HOSTILE_EVERY"  # a short test sends one in so many


def kinds():
    """The odd replies by kind of message, in the order in which they are sent."""
    every = int(os.environ.get(EVERY, "1"))
    whole = {
        "query": {k: v for k, v in odd_replies.WHO.items() if k != "another's partition"},
        "train": dict(list(odd_replies.ARRAYS.items())[::2]),
        "evaluate": dict(list(odd_replies.FIGURES.items())[:24]),
    }
    return {kind: dict(list(ways.items())[::every]) for kind, ways in whole.items()}


def honest_reply(message):
    """What an honest client could have answered; it takes no data."""
    if message.metadata.message_type == "query":
        return reply(message, None, {"partition-id": 1, "num-examples": 7})
    figures = {"num-examples": 7, "loss": 0.5}
    state = received(message) if message.metadata.message_type == "train" else None
    return reply(message, state, figures)


def answer(message, context):
    kind = message.metadata.message_type
    place = Path(os.environ["FEDPRIV_STATE"]) / f"answered-{context.run_id}-{kind}"
    number = int(place.read_text()) if place.exists() else 0
    place.write_text(str(number + 1))
    ways = list(kinds()[kind].values())
    found = honest_reply(message)
    return ways[number][0](found, message) if number < len(ways) else found


app = ClientApp()
for register in (app.train, app.query, app.evaluate):
    register()(answer)


def load():
    """What our executor loads before it forks, with this app in the place of the honest one."""
    import fedpriv.clients.app as clients

    honest_load()
    clients.app = app


honest_load, executor.load = executor.load, load

if __name__ == "__main__":
    executor.main()
