"""A server that insists: `python -m hostile_server` in place of the ServerApp's executor.

It runs ServerApps as Flower does, but for scenarios of the name INSISTING. There it asks one client
for more than the protocol has, and writes down what it was told.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

INSISTING, FOUND, VICTIM = "insisting", "found.json", 2
NO_ROUNDS = ("2", True, None)  # tests/hostile/test_ledger.py has more
OTHER_KINDS = ("evaluate", "query.codes", "train.default")


def victim_of(grid):
    """The node that says it is the victim."""
    questions = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
    for answer in grid.send_and_receive(questions, timeout=60):
        figures = {} if answer.has_error() else answer.content.metric_records.get("metrics", {})
        if figures.get("partition-id") == VICTIM:
            return answer.metadata.src_node_id
    raise LookupError("the victim is not here")


def insist(grid, scenario):
    """The answers, in order: what was asked for, and why it was refused; None for an update."""
    from fedpriv.scenario.built import first_state
    from fedpriv.wire import content

    node, state, found = victim_of(grid), first_state(scenario), []

    def message(kind, server_round):
        config = {} if server_round is None else {"server-round": server_round}
        return Message(content(state, config=ConfigRecord(config)), node, kind)

    def ask(*questions):
        """Ask all at once; whether the last one got an update."""
        waiting = list(grid.push_messages([message(*question) for question in questions]))
        replies, ends = {}, time.monotonic() + 120
        while len(replies) < len(waiting) and time.monotonic() < ends:
            for reply in grid.pull_messages(set(waiting) - set(replies)):
                replies[reply.metadata.reply_to_message_id] = reply
            time.sleep(0.2)
        for (kind, server_round), number in zip(questions, waiting, strict=True):
            reply = replies.get(number)
            why = (
                "no answer" if reply is None else reply.error.reason if reply.has_error() else None
            )
            found.append([f"{kind} {server_round!r}", why])
        return found[-1][1] is None

    ask(("train", 1))
    ask(
        ("train", 1),
        *(("train", server_round) for server_round in NO_ROUNDS),
        *((kind, 2) for kind in OTHER_KINDS),
    )
    for server_round in range(2, 12):
        if not ask(("train", server_round)):
            break
    return found


def hostile_app(honest):
    app = ServerApp()

    @app.main()
    def main(grid, context):
        from fedpriv.scenario import Scenario

        scenario = Scenario.of(context.run_config)
        if scenario.name != INSISTING:
            honest(grid, context)
            return
        folder = Path(context.run_config["out"])
        folder.mkdir()
        (folder / FOUND).write_text(json.dumps(insist(grid, scenario)))

    return app


def serve():
    """Be the process of one ServerApp."""
    from flwr.superlink.cli import flwr_serverapp

    import fedpriv.strategies.app as server

    server.app = hostile_app(server.app)
    flwr_serverapp()


def main():
    from flwr.supercore.superexec.executor import subprocess_executor

    from fedpriv.flower import flower_superexec

    class Hostile:
        """`subprocess` for Flower's executor, which starts this file in place of its own."""

        DEVNULL = subprocess.DEVNULL

        @staticmethod
        def Popen(words, **options):
            return subprocess.Popen([sys.executable, "-m", "hostile_server", *words[1:]], **options)

    subprocess_executor.subprocess = Hostile
    flower_superexec()


if __name__ == "__main__":
    serve() if "--token" in sys.argv else main()
